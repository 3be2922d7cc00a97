#!/usr/bin/env bash
# `lamina bench --session` answers what each line of stdin asks for, keeps prompts of decoding in the cache, and ends with a bad line.
set -euo pipefail

session() { printf '%s\n' "$@" | "$LAMINA_BIN" bench models/demo --session --max-total-tokens 2048 --chunked-prefill-size 64; }

decode='{"what":"decode","context":80,"batch":2,"tokens":128}'
# The first of these prompts would end its two tokens before the last is computed, were they not computed beforehand.
long='{"what":"decode","context":400,"batch":4,"tokens":2}'
session '{"what":"prefill","tokens":40}' "$decode" "$long" '{"what":"memory"}' 2>/dev/null | python3 -c '
import json, sys

ready, prefill, decode, long, memory = map(json.loads, sys.stdin)
assert ready["what"] == "ready" and ready["weight_bytes"] > 0 and ready["ready_s"] >= ready["load_s"] > 0, ready
assert prefill["what"] == "prefill" and prefill["tok_s"] > 0 and prefill["gflops"] > 0, prefill
assert decode["cached"] >= 2 * 64 and decode["tok_s"] > 0, decode
assert long["cached"] >= 4 * 384 and long["step_bytes"] > ready["weight_bytes"] / 2, long
assert memory["peak_rss_bytes"] > 0, memory
'

errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
for bad in '{"what":"sing"}' '{"what":"prefill","tokens":0}' 'prefill'; do
  if session "$bad" >/dev/null 2>"$errors"; then echo "accepted: $bad"; exit 1; fi
  grep -q '^error: stdin' "$errors" || { echo "$bad: no error that names stdin:"; cat "$errors"; exit 1; }
done
