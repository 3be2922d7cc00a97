#!/usr/bin/env bash
# The program on processors that are emulated. One with AVX2 gives the demo's answer and the bits this machine gives by that path. One
# without is told what it lacks and what to do; what computes nothing, and the reference path when it is asked for, run there too.
# An instruction the processor does not have would end the program by a signal.
set -euo pipefail

skip() { echo "skipped: $*"; exit 77; }
[[ $(uname -m) == x86_64 ]] || skip "this machine is no x86-64"
command -v qemu-x86_64 >/dev/null || skip "there is no qemu-x86_64 (Debian package qemu-user)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; cat "$work/errors"; exit 1; }

# The program on the processor $CPU, as a command that tools/demo/ask.sh can start.
cat >"$work/lamina" <<LAMINA
#!/bin/sh
exec qemu-x86_64 -cpu "\$CPU" "$LAMINA_BIN" "\$@" 2>"$work/errors"
LAMINA
chmod +x "$work/lamina"
on() { CPU=$1 "$work/lamina" "${@:2}"; }

# same_bits CPU ISA OPTION...: the logits of a small model there are those of this machine forced to the path.
sizes='"num_hidden_layers":2,"hidden_size":256,"intermediate_size":512,"vocab_size":512,"num_attention_heads":8,"num_key_value_heads":2'
model=(tests/configs/llama-3.2-1b --load-format dummy --json-model-override-args "{$sizes}" --max-total-tokens 512)
ids=$(seq -s, 5 31 500)
same_bits() {
  local command=(logits "${model[@]}" --prompt-ids "$ids" "${@:3}") isa=
  [[ $2 == ref ]] && isa=ref
  LAMINA_ISA=$isa on "$1" "${command[@]}" >"$work/there" || fail "$*: exit code $?"
  grep -q ", $2, " "$work/errors" || fail "$*: the start line names another path"
  LAMINA_ISA=$2 "$LAMINA_BIN" "${command[@]}" >"$work/here" 2>"$work/errors" || fail "$*: exit code $? on this machine"
  cmp "$work/here" "$work/there" || fail "$*: other logits than on this machine"
}

# refused CPU TEXT: `generate` says so in one line and ends with 1.
refused() {
  local code=0 message
  on "$1" generate models/demo --prompt-ids 5 >"$work/there" || code=$?
  message=$(grep -v '^qemu-x86_64: warning: ' "$work/errors") || true
  [[ $code == 1 && ! -s $work/there ]] || fail "$1: exit code $code"
  [[ $message == "error: "*"$2"* && $message != *$'\n'* ]] || fail "$1: not the message that was expected"
}

answer=$(CPU=Haswell bash tools/demo/ask.sh "$work/lamina" models/demo glacier) || fail "the demo failed"
[[ $answer == $'> What is a glacier?\na slowly moving mass of ice' ]] || fail "the demo answered: $answer"
same_bits Haswell avx2 --threads 2
same_bits Haswell avx2 --threads 1 --quantization int8 --kv-cache-dtype int8
same_bits max avx2 --threads 2 --quantization int4

ref='; LAMINA_ISA=ref runs the reference kernels'
refused qemu64 "lacks: AVX, AVX2, FMA, F16C$ref"
refused Nehalem "lacks: AVX, AVX2, FMA, F16C$ref"
refused Haswell,-avx2 "lacks: AVX2$ref"
refused Haswell,-fma "lacks: FMA$ref"
refused Haswell,-f16c "lacks: F16C$ref"
refused Haswell,-xsave "lacks: AVX registers saved by the operating system (XSAVE)$ref"
LAMINA_ISA=avx2 refused Nehalem 'AVX2, FMA and F16C; the fastest path here is ref'

same_bits Nehalem ref --threads 2
same_bits qemu64 ref --threads 2 --quantization int8
quantize="quantize models/demo $work/int8 --scheme int8 --ignore re:.*mlp.*"
for command in --help 'inspect models/demo' 'tokenize models/demo --text ice' "$quantize"; do
  on qemu64 $command >"$work/there" || fail "$command: exit code $?"
done
