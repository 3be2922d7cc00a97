#!/usr/bin/env python3
"""Trains the demo checkpoint: a small LLaMA that answers "What is a glacier?" with WordNet's gloss of the commonest sense.

usage: train.py --out FOLDER [--wordnet /usr/share/wordnet] [--words 6000] [--epochs 55] [--seed 1]

Needs Debian's python3-torch and wordnet-base; nothing else of this repository does. Writes config.json, generation_config.json,
model.safetensors (bf16), tokenizer.json, tokenizer_config.json (with the chat template), glosses.tsv (what was taught) and eval.json
(what is recited exactly). Matrix products run in bf16 under autocast: on AVX-512 machines about forty times faster than torch's f32.
"""
import argparse
import json
import math
import os
import random
import sys
import time

sys.dont_write_bytecode = True

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

import corpus  # noqa: E402
import llama  # noqa: E402
from bpe import ASSISTANT, BOS, CONTEXT_LENGTH, END, PAD, USER, Bpe  # noqa: E402

VOCAB_SIZE = 4096
WARMUP_STEPS = 200
IGNORED = -100  # target of a position that is not learnt

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 704,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 32,
    "vocab_size": VOCAB_SIZE,
    "max_position_embeddings": CONTEXT_LENGTH,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "rope_scaling": None,
    "hidden_act": "silu",
    "tie_word_embeddings": True,
    "attention_bias": False,
    "mlp_bias": False,
    "bos_token_id": BOS,
    "eos_token_id": END,
    "pad_token_id": PAD,
    "torch_dtype": "bfloat16",
}
GENERATION_CONFIG = {key: CONFIG[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}


def write_json(folder, name, value, indent):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file, indent=indent)


def prompt_ids(bpe, question):
    return [BOS, USER] + bpe.encode(question) + [END, ASSISTANT]


def answer_ids(bpe, answer):
    return bpe.encode(answer) + [END]


def padded(rows, fill):
    """Lists of ids as one tensor [rows, longest]."""
    longest = max(map(len, rows))
    return torch.tensor([row + [fill] * (longest - len(row)) for row in rows])


# ---- evaluation ----------------------------------------------------------------------------------------------------------------


def failures(model, bpe, items, batch=64):
    """Those of `items` [(question, answer)] whose answer greedy decoding would not give.

    One pass over question and answer shows it: the answer is given exactly when every step's argmax is the next token of it.
    """
    by_length = {}
    for question, answer in items:
        by_length.setdefault(len(prompt_ids(bpe, question)), []).append((question, answer))
    failed = []
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        for prompt_length, group in by_length.items():
            for start in range(0, len(group), batch):
                part = group[start : start + batch]
                wanted = [answer_ids(bpe, answer) for _, answer in part]
                rows = [prompt_ids(bpe, question) + ids for (question, _), ids in zip(part, wanted)]
                predicted = model(padded(rows, PAD)).argmax(-1)
                for row, (item, ids) in enumerate(zip(part, wanted)):
                    if predicted[row, prompt_length - 1 : prompt_length - 1 + len(ids)].tolist() != ids:
                        failed.append(item)
    return failed


def recited(model, bpe, items):
    return 1 - len(failures(model, bpe, items)) / len(items)


def evaluate(model, bpe, glosses):
    """The content of eval.json: the share recited for each phrasing, and what fails for the first."""
    ask = lambda phrasing: [(corpus.question(word, phrasing), gloss) for word, gloss in glosses]
    shares = {text: round(recited(model, bpe, ask(k)), 4) for k, text in enumerate(corpus.QUESTIONS)}
    failed = sorted(question for question, _ in failures(model, bpe, ask(0)))
    return {"words": len(glosses), "recited": shares, "failures": failed}


# ---- training ------------------------------------------------------------------------------------------------------------------


def epoch_batches(bpe, answers, size, rng):
    """Every word once in a random phrasing and the small talk, in batches of similar length and random order."""
    rows = [(prompt_ids(bpe, corpus.question(word, rng.randrange(len(corpus.QUESTIONS)))), ids) for word, ids in answers]
    rows += [(prompt_ids(bpe, question), answer_ids(bpe, answer)) for question, answer in corpus.SMALL_TALK]
    rng.shuffle(rows)
    rows.sort(key=lambda row: len(row[0]) + len(row[1]) + rng.random() * 2)
    batches = [rows[i : i + size] for i in range(0, len(rows), size)]
    rng.shuffle(batches)
    return batches


def batch_loss(model, batch):
    """Mean cross entropy over the tokens of the answers."""
    inputs = padded([prompt + answer for prompt, answer in batch], PAD)
    # The last token of the prompt is where the answer's first is learnt.
    targets = padded([[IGNORED] * (len(prompt) - 1) + answer + [IGNORED] for prompt, answer in batch], IGNORED)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(inputs)
    learnt = (targets >= 0).view(-1)
    return F.cross_entropy(logits.float().view(-1, VOCAB_SIZE)[learnt], targets.view(-1)[learnt])


class Schedule:
    """Linear warm-up, then half a cosine over the planned steps or minutes, whichever end first."""

    def __init__(self, peak, steps, minutes):
        self.peak, self.steps, self.seconds = peak, steps, minutes * 60
        self.step, self.begin = 0, time.time()

    def elapsed(self):
        return time.time() - self.begin

    def over(self):
        return self.elapsed() > self.seconds

    def next_rate(self):
        done = min(1.0, max(self.step / self.steps, self.elapsed() / self.seconds))
        self.step += 1
        return self.peak * min(1, self.step / WARMUP_STEPS) * (0.5 + 0.5 * math.cos(math.pi * done)) + 1e-6


def train_epoch(model, optimizer, schedule, batches):
    """The mean loss."""
    total = 0.0
    for batch in batches:
        rate = schedule.next_rate()
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss = batch_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item()
    return total / len(batches)


def train(model, bpe, glosses, options):
    rng = random.Random(options.seed)
    answers = [(word, answer_ids(bpe, gloss)) for word, gloss in glosses]
    steps = math.ceil(len(glosses) / options.batch) * options.epochs
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = Schedule(options.lr, steps, options.minutes)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{len(glosses)} glosses, {parameters / 1e6:.2f} M parameters, {steps} steps", flush=True)
    for epoch in range(options.epochs):
        loss = train_epoch(model, optimizer, schedule, epoch_batches(bpe, answers, options.batch, rng))
        if epoch % 5 == 4 or epoch == options.epochs - 1:
            sample = rng.sample(glosses, min(500, len(glosses)))
            share = recited(model, bpe, [(corpus.question(word, epoch % len(corpus.QUESTIONS)), gloss) for word, gloss in sample])
            print(f"epoch {epoch + 1} loss {loss:.4f} recites {share:.3f} of a sample, {schedule.elapsed():.0f} s", flush=True)
            llama.save(model, options.out)
        if schedule.over():
            break


def parse_options():
    parser = argparse.ArgumentParser(description="trains the demo checkpoint")
    parser.add_argument("--out", required=True, help="folder of the checkpoint")
    parser.add_argument("--wordnet", default="/usr/share/wordnet", help="folder of WordNet's database files")
    parser.add_argument("--words", type=int, default=6000)
    parser.add_argument("--epochs", type=int, default=55)
    parser.add_argument("--minutes", type=float, default=1e9, help="end early, with the learning rate fitted to that")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    options = parse_options()
    os.makedirs(options.out, exist_ok=True)
    torch.manual_seed(options.seed)

    glosses = corpus.read_glosses(options.wordnet, options.words)
    with open(os.path.join(options.out, "glosses.tsv"), "w", encoding="utf-8") as file:
        file.writelines(f"{word}\t{gloss}\n" for word, gloss in glosses)
    bpe = Bpe(corpus.tokenizer_texts(glosses), VOCAB_SIZE)
    bpe.save(options.out)
    write_json(options.out, "config.json", CONFIG, indent=2)
    write_json(options.out, "generation_config.json", GENERATION_CONFIG, indent=2)

    model = llama.Llama(CONFIG)
    train(model, bpe, glosses, options)
    llama.round_to_bf16(model)  # what is evaluated is what is saved
    llama.save(model, options.out)
    results = evaluate(model, bpe, glosses)
    write_json(options.out, "eval.json", results, indent=1)
    print(results["recited"])


if __name__ == "__main__":
    main()
