#!/usr/bin/env bash
# run_fuzz.sh SECONDS [TARGET...]: runs the fuzz targets of build/fuzz (all of them), two at a time, each for so many seconds. It starts from
# tests/fuzz/corpus/TARGET and from what earlier runs found (build/fuzz/found/TARGET). One line a target; an input that crashes, hangs or
# allocates too much stays in build/fuzz/crashes, is named, and fails the run.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=$1
shift
targets=("$@")
if [[ $# -eq 0 ]]; then
  for source in tests/fuzz/*_fuzz.cc; do targets+=("$(basename "$source" _fuzz.cc)"); done
fi
crashes=build/fuzz/crashes
export ASAN_OPTIONS=allow_addr2line=1 UBSAN_OPTIONS=allow_addr2line=1:print_stacktrace=1
mkdir -p "$crashes"

# fuzz TARGET: the limits make a crash of an allocation that follows a lying length, and of a hang.
fuzz() {
  local target=$1 log=build/fuzz/$1.log options=(-rss_limit_mb=1024 -malloc_limit_mb=256)
  [[ $target == jinja ]] && options=(-rss_limit_mb=2048 -malloc_limit_mb=640)  # a render may take 512 MiB (src/text/jinja/limits.h)
  mkdir -p "build/fuzz/found/$target"
  [[ -f tests/fuzz/dict/$target.dict ]] && options+=("-dict=tests/fuzz/dict/$target.dict")
  "build/fuzz/${target}_fuzz" -max_total_time="$seconds" -timeout=5 -print_final_stats=1 \
    -artifact_prefix="$crashes/$target-" "${options[@]}" "build/fuzz/found/$target" "tests/fuzz/corpus/$target" >"$log" 2>&1
  local status=$? runs before after
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  before=$(sed -n -E 's/.*INITED +cov: ([0-9]+).*/\1/p' "$log")
  after=$(sed -n -E 's/.* cov: ([0-9]+).*/\1/p' "$log" | tail -n 1)
  if [[ $status -ne 0 ]]; then
    tail -n 40 "$log"
    echo "error: fuzz target $target failed on $(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1); output: $log"
    return 1
  fi
  echo "fuzz $target: $runs runs, coverage $before -> $after"
}

failed=0
running=0
for target in "${targets[@]}"; do
  if [[ $running -eq 2 ]]; then
    wait -n || failed=1
    running=1
  fi
  fuzz "$target" &
  running=$((running + 1))
done
while [[ $running -gt 0 ]]; do
  wait -n || failed=1
  running=$((running - 1))
done
exit "$failed"
