#!/usr/bin/env bash
# Ranks as processes of mpirun: the same bits as ranks that are threads, over shared memory and over TCP; one start refused; a rank that
# is killed under load ends the run within seconds, and no client is left without an answer.
set -euo pipefail

command -v mpirun >/dev/null || { echo "skipped: there is no mpirun (Debian package openmpi-bin)"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*"; cat "$work"/*.log 2>/dev/null || true; exit 1; }

# ranks N [MPIRUN OPTION...] -- COMMAND...
ranks() {
  local count=$1 options=()
  shift
  while [[ $1 != -- ]]; do options+=("$1"); shift; done
  shift
  timeout 120 mpirun -n "$count" --oversubscribe "${options[@]}" "$LAMINA_BIN" "$@"
}

prompt=1,281,276,262,327,390,366,268,69,12,500,4000,77,78,79,80,81,82,83,84

# same N "MPIRUN OPTIONS" TOPOLOGY...: logits and tokens equal those of thread ranks, to the last digit that JSON shows.
same() {
  local count=$1 options=() common
  read -ra options <<<"$2"
  shift 2
  common=(models/demo --prompt-ids $prompt --threads 1 --max-total-tokens 4096 "$@")
  "$LAMINA_BIN" logits "${common[@]}" >"$work/threads" 2>"$work/threads.log" || fail "thread ranks $*: logits"
  ranks "$count" "${options[@]}" -- logits "${common[@]}" >"$work/processes" 2>"$work/processes.log" || fail "processes $*: logits"
  [[ $(wc -l <"$work/processes") == 1 ]] || fail "processes $*: other ranks print too"
  cmp "$work/threads" "$work/processes" || fail "processes $*: other logits than thread ranks"
  "$LAMINA_BIN" generate "${common[@]}" --max-new-tokens 16 >"$work/threads" 2>"$work/threads.log" || fail "thread ranks $*: generate"
  ranks "$count" "${options[@]}" -- generate "${common[@]}" --max-new-tokens 16 >"$work/processes" 2>"$work/processes.log" ||
    fail "processes $*: generate"
  cmp "$work/threads" "$work/processes" || fail "processes $*: other tokens than thread ranks"
  echo "same: $*"
}

same 2 "" --tp 2
same 2 "" --pp 2
same 4 "" --tp 2 --pp 2
same 2 "" --tp 2 --dp-attention 2
same 2 "--mca btl self,tcp" --tp 2 --pp 1 --dtype float32

# A start that fails says so once, and every process leaves.
for topology in "--tp 4" "--tp 2 --max-total-tokens 3" "--tp 0" "--tp two"; do
  # shellcheck disable=SC2086
  if ranks 2 -- logits models/demo --prompt-ids 1 $topology >"$work/out" 2>"$work/refused.log"; then fail "$topology: was not refused"; fi
  [[ $(grep -c '^error: ' "$work/refused.log") == 1 ]] || fail "$topology: not one error line"
  [[ ! -s $work/out ]] || fail "$topology: something on stdout"
  [[ $topology != "--tp 4" ]] || grep -q 'mpirun started 2 processes, --tp-size 4' "$work/refused.log" || fail "the sizes are not named"
done

python3 tests/e2e/mpi_serve.py "$LAMINA_BIN"
