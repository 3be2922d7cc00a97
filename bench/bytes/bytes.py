"""Memory that weights take, format by format: `python3 bench/bytes/bytes.py LAMINA [MODEL] [--only NAME]`.

Two tables over the shape of MODEL, a folder with the config.json of a plain LLaMA with a tied head; its weights are made up. One process a case.

Resident: what the published form takes by its definition (codes, scales, zero points, and the rest plain), what lamina reserves, and what
the process holds anonymously at load and after 100 decode steps. What it holds more by then counts as far as the KV pool and the arena,
both made small, do not explain it. All three within 3 % of the definition.

Peak: random bf16 files are loaded with --quantization. The peak of the resident set, mapped file pages included, is at most 1.25 times what
the quantised weights take, plus tensors in flight, of which the largest counts as one.

Exit code 1 when a figure is beyond its limit.
"""
import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

MODEL = "tests/configs/llama-3.2-1b"
SMALL = ["--max-total-tokens", "256", "--chunked-prefill-size", "16", "--max-running-requests", "1"]
RESIDENT_LIMIT, PEAK_LIMIT = 0.03, 1.25


class Form:
    """What a matrix of N rows and K inputs takes: bits a code, bytes a scale of `rows` x `cols` weights (0: all), bits a zero point."""

    def __init__(self, bits, scale_bytes=0, cols=0, rows=1, zero_bits=0, index=False):
        self.bits, self.scale_bytes, self.cols, self.rows, self.zero_bits, self.index = bits, scale_bytes, cols, rows, zero_bits, index

    def size(self, n, k):
        groups = -(-k // (self.cols or k)) * -(-n // (self.rows or n))
        return n * k * self.bits / 8 + groups * (self.scale_bytes + self.zero_bits / 8) + (4 * k if self.index else 0)


PLAIN = Form(16)


def compressed(form, weights, inputs=None):
    """The quantization_config of a compressed-tensors checkpoint whose head stays plain."""
    group = {"targets": ["Linear"], "weights": weights, "input_activations": inputs}
    return {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"], "config_groups": {"group_0": group}}


def integers(bits, group=None, symmetric=True):
    strategy = {"strategy": "group", "group_size": group} if group else {"strategy": "channel"}
    return {"num_bits": bits, "type": "int", "symmetric": symmetric, "dynamic": False, **strategy}


def floats(bits, **strategy):
    return {"num_bits": bits, "type": "float", "symmetric": True, "dynamic": False, **strategy}


def gptq(bits, group, sym=True, desc_act=False):
    return {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": sym, "desc_act": desc_act, "checkpoint_format": "gptq"}


def awq(group):
    return {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": "gemm"}


BY_TOKEN = {"num_bits": 8, "type": "int", "symmetric": True, "dynamic": True, "strategy": "token"}

# name: (options, form of the matrices). These take the tied head along.
ON_LOAD = {
    "bf16": ([], PLAIN),
    "int8 on load": (["--quantization", "int8"], Form(8, 4)),
    "fp8 on load": (["--quantization", "fp8"], Form(8, 4)),
    "int4 g32 on load": (["--quantization", "int4", "--quantization-group-size", "32"], Form(4, 2, 32)),
    "int4 g128 on load": (["--quantization", "int4", "--quantization-group-size", "128"], Form(4, 2, 128)),
}
# name: (quantization_config, form of the layers' matrices). The tied head is plain.
PUBLISHED = {
    "fp8 per tensor, static": ({"quant_method": "fp8", "activation_scheme": "static"}, Form(8, 4, 0, 0)),
    "fp8 blocks of 128": ({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}, Form(8, 4, 128, 128)),
    "fp8 per channel": (compressed("float-quantized", floats(8, strategy="channel")), Form(8, 2)),
    "int8 w8a8": (compressed("int-quantized", integers(8), BY_TOKEN), Form(8, 2)),
    "pack-quantized 4 bit g32": (compressed("pack-quantized", integers(4, 32)), Form(4, 2, 32)),
    "pack-quantized 4 bit g128, asymmetric": (compressed("pack-quantized", integers(4, 128, False)), Form(4, 2, 128, zero_bits=4)),
    "pack-quantized 8 bit": (compressed("pack-quantized", integers(8)), Form(8, 2)),
    "gptq 4 bit g128": (gptq(4, 128), Form(4, 2, 128, zero_bits=4)),
    "gptq 4 bit g32, asymmetric": (gptq(4, 32, sym=False), Form(4, 2, 32, zero_bits=4)),
    "gptq 4 bit g128, activation order": (gptq(4, 128, desc_act=True), Form(4, 2, 128, zero_bits=4, index=True)),
    "gptq 8 bit g128": (gptq(8, 128), Form(8, 2, 128, zero_bits=8)),
    "awq g128": (awq(128), Form(4, 2, 128, zero_bits=4)),
    "awq g32": (awq(32), Form(4, 2, 32, zero_bits=4)),
    "mxfp4": (compressed("mxfp4-pack-quantized", floats(4, strategy="group", group_size=32, scale_dtype="torch.uint8")), Form(4, 1, 32)),
    "nvfp4": (compressed("nvfp4-pack-quantized", floats(4, strategy="tensor_group", group_size=16)), Form(4, 1, 16)),
}


def tensors(config):
    """(name, shape) of the checkpoint."""
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    layer = {
        "self_attn.q_proj": (q, hidden), "self_attn.k_proj": (kv, hidden), "self_attn.v_proj": (kv, hidden), "self_attn.o_proj": (hidden, q),
        "mlp.gate_proj": (inner, hidden), "mlp.up_proj": (inner, hidden), "mlp.down_proj": (hidden, inner),
        "input_layernorm": (hidden,), "post_attention_layernorm": (hidden,),
    }  # fmt: skip
    yield "model.embed_tokens.weight", (config["vocab_size"], hidden)
    for i in range(config["num_hidden_layers"]):
        yield from ((f"model.layers.{i}.{name}.weight", shape) for name, shape in layer.items())
    yield "model.norm.weight", (hidden,)


def published_bytes(config, layers, head):
    """Of all tensors, by definition."""
    total = 0
    for name, shape in tensors(config):
        total += 2 * shape[0] if len(shape) == 1 else (head if "embed" in name else layers).size(*shape)
    return total


def write_checkpoint(folder, model, config):
    """Random bf16 weights of the shape of `config`: signs, mantissas and exponents of -8 to -5."""
    shutil.copy(os.path.join(model, "config.json"), folder)
    header, offset = {}, 0
    for name, shape in tensors(config):
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    block = 1 << 22
    keep = int.from_bytes(b"\xff\x81" * (block // 2), "little")
    exponent = int.from_bytes(b"\x80\x3b" * (block // 2), "little")
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for begin in range(0, offset, block):
            values = (int.from_bytes(os.urandom(block), "little") & keep) + exponent
            file.write(values.to_bytes(block, "little")[: offset - begin])


def bench(lamina, model, options):
    """The JSON of a run of 100 decode steps; ends the program with its message when it fails."""
    command = [lamina, "bench", model, "--pp", "16", "--tg", "100", "--rounds", "1", *SMALL, *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}:\n{done.stderr}")
    return json.loads(done.stdout)


def resident_row(name, defined, run):
    """Prints a row; whether it is within the limit."""
    growth, explained = run["decode_rss_bytes"] - run["load_rss_bytes"], run["kv_pool_bytes"] + run["arena_bytes"]
    after = run["load_rss_bytes"] + (growth if growth < 0 else max(0, growth - explained))
    held = [run["weight_bytes"], run["load_rss_bytes"], after]
    ratios = [amount / defined for amount in held]
    miss = any(abs(ratio - 1) > RESIDENT_LIMIT for ratio in ratios)
    cells = [f"{amount / 1e6:.1f} ({ratio:.3f})" for amount, ratio in zip(held, ratios)]
    print(f"| {name} | {defined / 1e6:.1f} | {' | '.join(cells)} |{' beyond the limit' if miss else ''}", flush=True)
    return not miss


def resident(arguments, config):
    print("| format | by definition, MB | reserved (ratio) | at load | after 100 steps |\n|---|---|---|---|---|")
    cases = {name: (options, form, form) for name, (options, form) in ON_LOAD.items()}
    for name, (quantization, form) in PUBLISHED.items():
        cases[name] = (["--json-model-override-args", json.dumps({"quantization_config": quantization})], form, PLAIN)
    within = True
    for name, (options, layers, head) in cases.items():
        if arguments.only in name:
            run = bench(arguments.lamina, arguments.model, ["--load-format", "dummy", *options])
            within &= resident_row(name, published_bytes(config, layers, head), run)
    return within


def peaks(arguments, config):
    cases = {name: options for name, (options, _) in ON_LOAD.items() if arguments.only in name}
    if not cases:
        return True
    largest = max(2 * shape[0] * shape[1] for _, shape in tensors(config) if len(shape) > 1)
    print("\n| loading bf16 files as | load s | quantised, MB | peak, MB | ratio |\n|---|---|---|---|---|")
    within = True
    with tempfile.TemporaryDirectory() as folder:
        write_checkpoint(folder, arguments.model, config)
        for name, options in cases.items():
            run = bench(arguments.lamina, folder, options)
            peak, weights = run["load_peak_rss_bytes"], run["weight_bytes"]
            miss = peak > PEAK_LIMIT * weights + largest
            cells = f"{run['load_s']:.1f} | {weights / 1e6:.1f} | {peak / 1e6:.1f} | {peak / weights:.3f}"
            print(f"| {name} | {cells} |{' beyond the limit' if miss else ''}", flush=True)
            within &= not miss
    return within


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lamina")
    parser.add_argument("model", nargs="?", default=MODEL)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    arguments = parser.parse_args()
    with open(os.path.join(arguments.model, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    within = resident(arguments, config)
    within &= peaks(arguments, config)
    sys.exit(0 if within else 1)


main()
