#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: train_hosts.sh BUILD_DIR      training on three hosts, over TLS, at 200 Mbit/s
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
. tests/engines/lib.sh
. tests/engines/hosts.sh
program=$PWD/$1/meshflow
torch=$PWD/build/venv-torch/bin
make_hosts "training on three hosts" || exit

slow_down 200mbit >"$work/log" 2>&1
verdict "three hosts that send 200 Mbit/s" $?
alone "$program"
"$program" cert --out "$work/tls" --host $net.1 --host $net.2 --host $net.3 \
    --task 'worker 0' --task 'worker 1' --task 'worker 2' --task 'ps 0' >"$work/log" 2>&1
verdict "certificates for three hosts" $? "for worker 2"

on() # HOST COMMAND...
{
    local host=$1
    shift
    timeout 150 ip netns exec "$id-$host" "$@"
}

sent() # bytes that have left the three hosts
{
    for i in "${hosts[@]}"; do on "$i" cat /sys/class/net/eth0/statistics/tx_bytes; done |
        awk '{ sum += $1 } END { print sum }'
}

# ---- TF_CONFIG ----

more=(--tls-dir "$work/tls")
list="\"$net.1:2222\",\"$net.2:2222\",\"$net.3:2222\""
by_hand() # INDEX: worker INDEX on a host of its own
{
    TF_CONFIG="{\"cluster\":{\"worker\":[$list]},\"task\":{\"type\":\"worker\",\"index\":$1}}" \
        on "$(($1 + 1))" "$program" "${job[@]}" "${more[@]}"
}
before=$(sent)
all_trained "TF_CONFIG, a worker on each of three hosts" 3 by_hand
bytes=$(($(sent) - before))
echo "the hosts sent $bytes bytes" >"$work/log"
[ "$bytes" -gt 50000000 ] # the gradients, not only greetings
verdict "the gradients went over the wire: $((bytes / 1000000)) MB" $?

more=()
by_hand 0 >"$work/log" 2>&1
[ $? = 1 ]
verdict "without certificates nothing starts" $? "meshflow cert --out DIR" "--tls-dir"

with_ps() # INDEX: workers on hosts 1 and 2, their server on host 3
{
    local role=worker index=$1
    [ "$1" -lt 2 ] || role=ps index=0
    TF_CONFIG="{\"cluster\":{\"worker\":[\"$net.1:2223\",\"$net.2:2223\"],\"ps\":[\"$net.3:2223\"]},
        \"task\":{\"type\":\"$role\",\"index\":$index}}" \
        on "$(($1 + 1))" "$program" "${job[@]}" --tls-dir "$work/tls" --strategy parameter_server
}
pids=() status=0
for i in 0 1 2; do
    with_ps $i >"$work/log.$i" 2>&1 &
    pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
cat "$work"/log.? >"$work/log"
verdict "TF_CONFIG, two workers and a parameter server on three hosts" $status '"workers":2,' "$weights"

# ---- a list of hosts ----

printf '%s\n' $net.1 $net.2 $net.3 >"$work/hosts"
by_list() # INDEX: each finds itself in the list, by the name of its host
{
    # shellcheck disable=SC2016
    MESHFLOW_HOSTFILE=$work/hosts on "$(($1 + 1))" unshare --uts \
        sh -c 'hostname "$0" && exec "$@"' "$net.$(($1 + 1))" \
        "$program" "${job[@]}" --tls-dir "$work/tls"
}
all_trained "a list of three hosts" 3 by_list

# ---- numbered processes ----

by_number() # RANK: as Kubernetes' operator for PyTorch does it
{
    RANK=$1 WORLD_SIZE=3 MASTER_ADDR=$net.1 MASTER_PORT=2224 \
        on "$(($1 + 1))" "$program" "${job[@]}" --tls-dir "$work/tls"
}
all_trained "RANK and MASTER_ADDR, a worker on each of three hosts" 3 by_number

name="torchrun on three hosts"
with_torchrun() # NODE
{
    on "$(($1 + 1))" "$torch/torchrun" --no-python --nnodes 3 --nproc-per-node 1 --node-rank "$1" \
        --master-addr $net.1 --master-port 2225 "$program" "${job[@]}" --tls-dir "$work/tls"
}
if [ -x "$torch/torchrun" ]; then
    all_trained "$name" 3 with_torchrun
else
    skip "$name" "tools/make_peer_venv.sh torch makes it (5 GB)"
fi
finish
