"""Many ranks against one, in one run: `python3 bench/ranks/ranks.py LAMINA [MODEL] [--rounds 3] [--only NAME]`.

Cases alternate, one `lamina bench` each, so that a busy neighbour meets all of them; a rate is the best of the rounds. Threads are two in
all: one rank with two, or two ranks with one each. The last column is the rate over that of the case it is compared with.
"""
import argparse
import json
import subprocess
import sys

MODEL = "tests/configs/llama-3.2-1b"
TP2, PP2 = ["--tp-size", "2"], ["--pp-size", "2"]
ONE_IN_FLIGHT = ["--max-micro-batches", "1"]


def batch(size):
    """Prompts of 256 tokens, and requests that decode."""
    return ["--pp", "256", "--pp-batch", str(size), "--batch", str(size), "--chunked-prefill-size", "256"]


def residual(rows, requests):
    """The residual kept whole on each rank, or each rank's share: `rows` of a prefill, `requests` of a decode step."""
    name = f"{rows} / {requests} rows"
    shape = TP2 + ["--pp", str(rows), "--batch", str(requests), "--tg", "32"]
    return {
        f"replicated, {name}": (shape + ["--boundary-rows", "replicated"], None),
        f"scattered, {name}": (shape + ["--boundary-rows", "scattered"], f"replicated, {name}"),
    }


# name: (options, the case it is compared with)
CASES = {
    "tp 1 x 2 threads": ([], None),
    "tp 2 x 1 thread": (TP2, "tp 1 x 2 threads"),
    "tp 2, unfused boundaries": (TP2 + ["--boundary-plan", "reference"], None),
    "tp 2, fused boundaries": (TP2 + ["--boundary-plan", "fused"], "tp 2, unfused boundaries"),
    **residual(512, 1),
    **residual(128, 8),
    **residual(32, 32),
    # Batch 8 in flight as two steps of 4 requests, against one of them in flight; and against one step of all 8, which reads the weights once
    # where two steps read them twice.
    "pp 2, 4 in one step": (PP2 + batch(4) + ONE_IN_FLIGHT, None),
    "pp 2, 8 in one step": (PP2 + batch(8) + ONE_IN_FLIGHT, "pp 2, 4 in one step"),
    "pp 2, 8 in two steps in flight": (PP2 + batch(8), "pp 2, 4 in one step"),
}


def measure(arguments, options):
    command = [arguments.lamina, "bench", arguments.model, "--load-format", "dummy", "--threads", "2", "--rounds", "1"]
    done = subprocess.run(command + options, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command + options)}:\n{done.stderr}")
    return json.loads(done.stdout)


def show(best):
    print(f"{'case':32} {'prefill tok/s':>14} {'decode tok/s':>14}   ratio to the case compared with (prefill, decode)")
    for name, rates in best.items():
        other = CASES[name][1]
        ratio = f"{rates[0] / best[other][0]:.3f}, {rates[1] / best[other][1]:.3f}: {other}" if other in best else ""
        print(f"{name:32} {rates[0]:14.1f} {rates[1]:14.1f}   {ratio}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lamina")
    parser.add_argument("model", nargs="?", default=MODEL)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    arguments = parser.parse_args()
    chosen = {name: case for name, case in CASES.items() if arguments.only in name}
    best = {name: [0.0, 0.0] for name in chosen}
    for turn in range(arguments.rounds):
        print(f"round {turn + 1} of {arguments.rounds}", file=sys.stderr)
        for name, (options, _) in chosen.items():
            rates = measure(arguments, options)
            best[name] = [max(best[name][0], rates["pp_tok_s"]), max(best[name][1], rates["tg_tok_s"])]
    show(best)


main()
