#!/usr/bin/env python3
"""lint.py [--stats] [--text-only]: the repository's rules. Exit code 1 when one is broken.

--stats      prints the sizes the design bounds and the hops of a token from request to kernel
--text-only  leaves out what runs a compiler (clang-format, headers alone, clang-tidy)
"""
import subprocess
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True

import cpp  # noqa: E402
import rules  # noqa: E402
import toolchain  # noqa: E402


def repository():
    root = Path(__file__).resolve().parents[2]
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root, capture_output=True, check=True)
    return rules.Tree(root, listed.stdout.decode().split("\0")[:-1])


def text_findings(tree):
    return sorted(finding for rule in rules.RULES for finding in rule(tree))


def lint(tree, text_only):
    findings = text_findings(tree)
    compiler = toolchain.Compiler(tree)
    for rule in [] if text_only else toolchain.RULES:
        begin = time.monotonic()
        findings += rule(tree, compiler)
        print(f"lint: {rule.__name__}: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    for finding in findings:
        print(finding)
    print(f"lint: {len(tree.paths)} files, {len(findings)} findings")
    return 1 if findings else 0


def stats(tree):
    length = lambda path: len(tree.text(path).splitlines())
    longest = max(tree.cpp("src/"), key=length)
    function, path = max(((f, p) for p in tree.cpp("src/") for f in cpp.functions(tree.text(p))), key=lambda x: x[0].lines)
    print(f"longest file: {longest}, {length(longest)} lines")
    print(f"longest function: {function.name} ({path}:{function.line}), {function.lines} lines")
    for name in ("src/models/llama.cc", "src/models/qwen3.cc"):
        print(f"{name}: {length(name)} lines" if tree.exists(name) else f"{name}: absent")
    if tree.exists(rules.ARCHITECTURE):
        hops = [f"{f}:{symbol}" for _, f, symbol in rules.references(tree, rules.ARCHITECTURE) if not f.startswith("tests/")]
        print(f"hops from request to kernel: {len(hops)}")
        print("".join(f"  {hop}\n" for hop in hops), end="")
    return 0


def main(arguments):
    unknown = set(arguments) - {"--stats", "--text-only"}
    if unknown:
        print(f"error: lint takes --stats or --text-only, not {' '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    tree = repository()
    return stats(tree) if "--stats" in arguments else lint(tree, "--text-only" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
