#!/usr/bin/env bash
# ask.sh LAMINA MODEL WORD...: asks the demo model what each word means; prints its answers and the tokens per second.
set -euo pipefail

lamina=$1 model=$2
shift 2
for word in "$@"; do
  article=a
  [[ $word == [aeiou]* ]] && article=an
  question="What is $article $word?"
  echo "> $question"
  "$lamina" generate "$model" --prompt "<|user|>$question<|end|><|assistant|>" --max-new-tokens 96
done
