#!/usr/bin/env bash
# `lamina bench --session` answers what each line of stdin asks for, keeps prompts of decoding in the cache, and ends with a bad line.
set -euo pipefail

session() { printf '%s\n' "$@" | "$LAMINA_BIN" bench models/demo --session --max-total-tokens 2048; }

decode='{"what":"decode","context":80,"batch":2,"tokens":128}'
session '{"what":"prefill","tokens":40}' "$decode" "$decode" '{"what":"memory"}' 2>/dev/null | python3 -c '
import json, sys

ready, prefill, first, again, memory = map(json.loads, sys.stdin)
assert ready["what"] == "ready" and ready["weight_bytes"] > 0 and ready["ready_s"] >= ready["load_s"] > 0, ready
assert prefill["what"] == "prefill" and prefill["tok_s"] > 0 and prefill["gflops"] > 0, prefill
assert first["cached"] == 0 and first["tok_s"] > 0, first
assert again["cached"] >= 2 * 64 and again["step_bytes"] > ready["weight_bytes"] / 2, again
assert memory["peak_rss_bytes"] > 0, memory
'

errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
for bad in '{"what":"sing"}' '{"what":"prefill","tokens":0}' 'prefill'; do
  if session "$bad" >/dev/null 2>"$errors"; then echo "accepted: $bad"; exit 1; fi
  grep -q '^error: stdin' "$errors" || { echo "$bad: no error that names stdin:"; cat "$errors"; exit 1; }
done
