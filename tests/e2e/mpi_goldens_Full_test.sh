#!/usr/bin/env bash
# Every golden under mpirun on loopback: the logits of processes are, to the bit, those of thread ranks of the same topology, which
# tests/golden compares with float64; where heads do not divide, both refuse with the same words.
set -euo pipefail
command -v mpirun >/dev/null || { echo "mpirun is missing: skipped"; exit 77; }
golden=../shared/golden/models
[[ -d $golden ]] || { echo "../shared is absent: skipped"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# ask OUT COMMAND...: logits, or the error line.
ask() {
  local out=$1
  shift
  "$@" >"$out" 2>"$out.err" </dev/null || grep -h '^error:' "$out.err" | head -1 >>"$out"
}

served=0 refused=0
while IFS=$'\t' read -r name _; do
  [[ $name == '#'* || ! -d $golden/$name ]] && continue
  ids=$(python3 -c 'import json,sys; print(",".join(map(str, json.load(open(sys.argv[1]))["input_ids"])))' "$golden/$name/golden.json")
  for ranks in "2 --tp 2" "2 --pp 2" "4 --tp 2 --pp 2"; do
    read -r n topology <<<"$ranks"
    run=("$LAMINA_BIN" logits "$golden/$name" --prompt-ids "$ids" --dtype float32 --threads 1 --max-total-tokens 2048)
    # shellcheck disable=SC2086
    ask "$work/threads" "${run[@]}" $topology
    # shellcheck disable=SC2086
    ask "$work/processes" mpirun -n "$n" --oversubscribe --bind-to none "${run[@]}" $topology
    cmp -s "$work/threads" "$work/processes" || { echo "$name $topology differs:"; head -c 300 "$work/threads" "$work/processes" "$work/processes.err"; exit 1; }
    if grep -q '^error:' "$work/threads"; then refused=$((refused + 1)); else served=$((served + 1)); fi
  done
done <tests/golden/cases.tsv
echo "$served runs equal to the bit, $refused refused alike"
[[ $served -ge 80 ]]
