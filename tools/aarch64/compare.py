#!/usr/bin/env python3
"""compare.py NATIVE FOREIGN_COMMAND...: two builds of lamina answer a prompt of the demo model alike, on the reference kernels and on those
of AVX2 and NEON, whose vectors have one width and are added in one order.

Every rounding of the kernels is IEEE's and nothing is contracted, so both builds add and multiply to the same bits. The C library's exp,
sin, cos and pow may differ on another processor by a unit in the last place, and then a bf16 or 8-bit rounding may fall to the other side.
Hence logits are held to a bound, in parts of the largest, and tokens to equality; how many logits have the same bits is printed.
"""

import json
import os
import subprocess
import sys

MODEL = "models/demo"
PATHS = [("ref", "ref"), ("avx2", "neon")]
PROMPT = "<|user|>What is a glacier?<|end|><|assistant|>"
ROUNDED = 1e-2
RUNS = [
    (["--dtype", "float32"], 1e-5),
    ([], ROUNDED),
    (["--kv-cache-dtype", "int8"], ROUNDED),
    (["--kv-cache-dtype", "fp8_e4m3"], ROUNDED),
    (["--quantization", "int8"], ROUNDED),
    (["--quantization", "int4"], ROUNDED),
    (["--quantization", "fp8"], ROUNDED),
]


def run(command, environment, subcommand, arguments):
    return subprocess.run([*command, subcommand, MODEL, "--json", *arguments], env=environment, capture_output=True, text=True)


def answer(command, isa, subcommand, arguments):
    environment = dict(os.environ, LAMINA_ISA=isa)
    done = run(command, environment, subcommand, arguments)
    if done.returncode != 0:
        sys.exit(f"error: {' '.join(done.args)}: exit code {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)


def compare(native, foreign, ids, options, bound):
    arguments = [*options, "--prompt-ids", ",".join(map(str, ids))]
    rows = zip(answer(*native, "logits", arguments)["logits"], answer(*foreign, "logits", arguments)["logits"], strict=True)
    pairs = [pair for ours, theirs in rows for pair in zip(ours, theirs, strict=True)]
    same = sum(a == b for a, b in pairs)
    apart = max(abs(a - b) for a, b in pairs) / max(abs(a) for a, _ in pairs)
    name = f"{native[1]} and {foreign[1]}, {' '.join(options) or 'bfloat16'}"
    print(f"{name}: {same} of {len(pairs)} logits have the same bits; largest difference {apart:.1e} of the largest logit")
    if not apart <= bound:
        sys.exit(f"error: {name}: the builds differ by more than {bound}")


def refuse_without_dot_products(emulator, *command):
    """A processor of ARMv8.0 is told what it lacks, before any instruction that it lacks."""
    environment = {name: value for name, value in os.environ.items() if name != "LAMINA_ISA"}
    done = run([emulator, "-cpu", "cortex-a72", *command], environment, "generate", ["--prompt", PROMPT])
    print(f"Cortex-A72: exit code {done.returncode}, {done.stderr.strip()}")
    if done.returncode != 1 or "asimddp" not in done.stderr:
        sys.exit("error: a processor without dot products of bytes was not told so")


def main():
    refuse_without_dot_products(*sys.argv[2:])
    arguments = ["--prompt", PROMPT, "--max-new-tokens", "24"]
    for native_isa, foreign_isa in PATHS:
        native, foreign = (sys.argv[1:2], native_isa), (sys.argv[2:], foreign_isa)
        ours, theirs = (answer(*command, "generate", arguments) for command in (native, foreign))
        print(f"generated: {theirs['text']!r}")
        for key in ("prompt_ids", "output_ids"):
            if ours[key] != theirs[key]:
                sys.exit(f"error: {native_isa} and {foreign_isa}: {key} differ: {ours[key]}, {theirs[key]}")
        for options, bound in RUNS:
            compare(native, foreign, ours["prompt_ids"], options, bound)


if __name__ == "__main__":
    main()
