#!/usr/bin/env bash
# Two machines, as far as the network can tell: one rank in each of two network namespaces, joined by a virtual cable. The same logits as
# thread ranks, and a cable that is cut under a running command ends both ranks.
set -euo pipefail

skip() { echo "skipped: $*"; exit 77; }
command -v mpirun >/dev/null || skip "there is no mpirun (Debian package openmpi-bin)"
command -v ip >/dev/null || skip "there is no ip (Debian package iproute2)"
[[ $(id -u) == 0 ]] && unshare --net --uts true 2>/dev/null || skip "this machine allows no network namespaces"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

work=$(mktemp -d)
near=lamina-near-$$ far=lamina-far-$$
cleanup() {
  for space in $near $far; do ip netns pids "$space" 2>/dev/null | xargs -r kill -9; done
  ip netns del $near 2>/dev/null || true
  ip netns del $far 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
ip netns add $near 2>/dev/null || skip "ip cannot make a network namespace"
ip netns add $far
ip -n $near link add wire0 type veth peer name wire1 netns $far 2>/dev/null || skip "this machine has no virtual cables (veth)"
for side in "$near wire0 10.77.0.1" "$far wire1 10.77.0.2"; do
  read -r space wire address <<<"$side"
  ip -n "$space" addr add "$address/24" dev "$wire"
  ip -n "$space" link set "$wire" up
  ip -n "$space" link set lo up
done

# What mpirun uses instead of ssh: the far machine has a name and a place for its files of its own.
cat >"$work/agent" <<AGENT
#!/bin/sh
shift
mkdir -p $work/far
exec ip netns exec $far unshare --uts sh -c "hostname far; TMPDIR=$work/far \$*"
AGENT
chmod +x "$work/agent"

# both COMMAND...: rank 0 near, rank 1 far
both() {
  ip netns exec $near timeout 120 mpirun -n 2 -H 10.77.0.1:1,10.77.0.2:1 --mca plm_rsh_agent "$work/agent" --mca btl self,tcp \
    --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24 "$(realpath "$LAMINA_BIN")" "$@"
}

options=(models/demo --tp-size 2 --threads 1 --max-total-tokens 4096)
"$LAMINA_BIN" logits "${options[@]}" --prompt-ids 1,2,3,4,5 >"$work/threads" 2>"$work/log" || { cat "$work/log"; exit 1; }
both logits "${options[@]}" --prompt-ids 1,2,3,4,5 >"$work/apart" 2>"$work/log" || { cat "$work/log"; exit 1; }
cmp "$work/threads" "$work/apart" || { echo "other logits than thread ranks"; exit 1; }
echo "the same logits over the cable"

both bench "${options[@]}" --pp 400 --tg 400 --rounds 100 --dist-timeout 60 >"$work/out" 2>"$work/cut" &
run=$!
until grep -qs 'lamina: demo' "$work/cut"; do kill -0 $run || { cat "$work/cut"; exit 1; }; done
sleep 0.5
ip -n $far link set wire1 down
start=$SECONDS
# The ranks end; mpirun waits on for its other half.
alive() { for pid in $(ip netns pids $near) $(ip netns pids $far); do cat "/proc/$pid/comm" 2>/dev/null || true; done | grep -x lamina >/dev/null; }
while now=$((SECONDS - start)); alive; do [[ $now -le 10 ]] || { echo "a rank lives 10 s after the cable was cut"; cat "$work/cut"; exit 1; }; done
echo "both ranks ended $((SECONDS - start)) s after the cable was cut"
kill $run
grep -a '^error: ' "$work/cut" || { cat "$work/cut"; exit 1; }
[[ ! -s $work/out ]]
