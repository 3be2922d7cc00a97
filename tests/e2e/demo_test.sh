#!/usr/bin/env bash
# What `./dev demo` runs: the program itself answers on stdout; start line and speed go to stderr.
set -euo pipefail

errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
answer=$(bash tools/demo/ask.sh "$LAMINA_BIN" models/demo glacier 2>"$errors") || { cat "$errors"; exit 1; }
[[ $answer == $'> What is a glacier?\na slowly moving mass of ice' ]] || { echo "unexpected answer: $answer"; exit 1; }
grep -q LlamaForCausalLM "$errors" && grep -q tokens/s "$errors" || { echo "start line or speed is missing:"; cat "$errors"; exit 1; }
