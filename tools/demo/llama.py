"""A plain LLaMA in PyTorch, for training on a CPU. Modules carry the names of the Hugging Face checkpoint, so that saving only writes."""
import json
import math
import os
import struct

import torch
import torch.nn.functional as F
from torch import nn


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


class RmsNorm(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config["hidden_size"]))
        self.eps = config["rms_norm_eps"]

    def forward(self, x):
        return x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rotate(x, cos, sin):
    """x [batch, heads, positions, head_dim]; pairs are halves of a head."""
    a, b = x.float().chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden, self.head_dim = config["hidden_size"], config["head_dim"]
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.q_proj = linear(hidden, self.heads * self.head_dim)
        self.k_proj = linear(hidden, self.kv_heads * self.head_dim)
        self.v_proj = linear(hidden, self.kv_heads * self.head_dim)
        self.o_proj = linear(self.heads * self.head_dim, hidden)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        split = lambda y, heads: y.view(batch, length, heads, self.head_dim).transpose(1, 2)
        group = self.heads // self.kv_heads
        q = rotate(split(self.q_proj(x), self.heads), cos, sin)
        k = rotate(split(self.k_proj(x), self.kv_heads), cos, sin).repeat_interleave(group, 1)
        v = split(self.v_proj(x), self.kv_heads).repeat_interleave(group, 1)
        future = torch.full((length, length), -1e30).triu(1)
        weights = (q @ k.transpose(-1, -2) / math.sqrt(self.head_dim) + future).softmax(-1)
        return self.o_proj((weights.to(v.dtype) @ v).transpose(1, 2).reshape(batch, length, -1))


class Mlp(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden, inner = config["hidden_size"], config["intermediate_size"]
        self.gate_proj, self.up_proj, self.down_proj = linear(hidden, inner), linear(hidden, inner), linear(inner, hidden)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn, self.mlp = Attention(config), Mlp(config)
        self.input_layernorm, self.post_attention_layernorm = RmsNorm(config), RmsNorm(config)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """ids [batch, positions] -> logits [batch, positions, vocab]; the head is the embedding."""

    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.norm = RmsNorm(config)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.05)
        positions = torch.arange(config["max_position_embeddings"]).float()
        frequencies = config["rope_theta"] ** (-torch.arange(0, config["head_dim"], 2).float() / config["head_dim"])
        angles = torch.outer(positions, frequencies)
        self.cos, self.sin = angles.cos(), angles.sin()

    def forward(self, ids):
        length = ids.shape[1]
        x = self.embed_tokens(ids)
        for layer in self.layers:
            x = layer(x, self.cos[:length], self.sin[:length])
        return F.linear(self.norm(x), self.embed_tokens.weight)


def round_to_bf16(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(torch.bfloat16).float())


def save(model, folder):
    """model.safetensors in bf16: the length of the header, the header, the tensors back to back."""
    header, tensors, offset = {}, [], 0
    for name, parameter in model.named_parameters():
        data = parameter.detach().to(torch.bfloat16).contiguous().view(torch.int16).numpy().tobytes()
        header[f"model.{name}"] = {"dtype": "BF16", "shape": list(parameter.shape), "data_offsets": [offset, offset + len(data)]}
        tensors.append(data)
        offset += len(data)
    header["__metadata__"] = {"format": "pt"}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(tensors))
