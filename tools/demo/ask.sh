#!/usr/bin/env bash
# ask.sh LAMINA MODEL WORD...: asks the demo model what each word means; prints its answers and the tokens per second.
set -euo pipefail

lamina=$1 model=$2
shift 2
for word in "$@"; do
  prompt="<|user|>What is a $word?<|end|><|assistant|>"
  echo "> What is a $word?"
  "$lamina" generate "$model" --prompt "$prompt" --max-new-tokens 96
done
