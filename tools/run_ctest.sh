#!/usr/bin/env bash
# run_ctest.sh PRESET [ctest options]: runs the tests of build/PRESET, lists the skipped ones and closes with ctest's summary line.
# In CI a skipped test is a failure, unless ../shared is absent or tools/allowed-skips.txt gives the reason.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=$1
shift
log=build/$preset/ctest.log

# Every line goes to the log; the screen is spared the tests that pass.
ctest --test-dir "build/$preset" -j "$(nproc)" --output-on-failure --no-tests=error --no-label-summary "$@" </dev/null 2>&1 |
  tee "$log" | grep --line-buffered -v -E '^ *Start +[0-9]+: |   Passed +[0-9.]+ sec|^$'
status=${PIPESTATUS[0]}

skipped=$(sed -n -E 's/.*Test +#[0-9]+: ([^ ]+) .*\*\*\*Skipped.*/\1/p' "$log")
if [[ -n $skipped ]]; then
  unexplained=$(grep -v -E -f <(sed -E '/^#/d; /^$/d; s/[[:space:]].*//' tools/allowed-skips.txt) <<<"$skipped")
  printf 'skipped: %s\n' $skipped
  if [[ -n $unexplained && ${CI:-} == true && -d ../shared ]]; then
    printf 'error: skipped without a reason in tools/allowed-skips.txt: %s\n' $unexplained
    status=1
  fi
fi

echo "test times and output: $log"
grep -E '^[0-9]+% tests passed' "$log" | tee "build/$preset/ctest.summary"
exit "$status"
