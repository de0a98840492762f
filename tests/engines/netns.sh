#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: netns.sh BUILD_DIR      hosts as network namespaces, with a bridge between them
#
# Three hosts with an address each; tasks talk over gRPC with TLS, and over UCX, and are refused where
# they must be.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
. tests/engines/lib.sh
build=$PWD/$1
check=$build/net-check
. tests/engines/hosts.sh
make_hosts "tasks on three hosts" || exit

addresses=$net.1:2222,$net.2:2222,$net.3:2222

# talk NAME TRANSPORT [PATTERN...]: a task on every host; setup() prints the environment of each
talk()
{
    local name=$1 transport=$2 pids=() status=0
    shift 2
    for i in "${hosts[@]}"; do
        (
            setup "$((i - 1))"
            exec timeout 60 ip netns exec "$id-$i" "$check" "$transport" "$addresses" "$((i - 1))"
        ) >"$work/log.$i" 2>&1 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
    cat "$work"/log.? >"$work/log"
    [ "$want" = ok ] || status=$((status == 0 || status == 124))
    verdict "$name" "$status" "$@"
    [ "$want" != ok ] || grep -E '^(a small|large)' "$work/log" | sed 's/^/# /'
}

"$build/meshflow" cert --out "$work/tls" --host $net.1 --host $net.2 --host $net.3 \
    --task 'worker 0' --task 'worker 1' --task 'worker 2' >"$work/log" 2>&1
verdict "certificates for three hosts" $? "for worker 2"
"$build/meshflow" cert --out "$work/other" --host $net.3 --task 'worker 2' >/dev/null

with_tls() # DIRECTORY
{
    export MESHFLOW_TLS_CA=$1/ca.pem MESHFLOW_TLS_CERT=$1/cert.pem MESHFLOW_TLS_KEY=$1/key.pem
}

want=ok
setup() { with_tls "$work/tls/worker-$1"; }
talk "tasks on three hosts talk over TLS" grpc "task 0 of 3: ok" "task 2 of 3: ok"

# A real training: each host has its own /dev/shm, so that all traffic uses the transport.
training=(train --model wide-deep --data synthetic-ctr --set count=2000 --batch 100 --optimizer adam
    --steps 20 --threads 1 --json)
weights() { grep -oh '"weights_sha256": *"[0-9a-f]*"' "$@" | sort -u; }

train_everywhere() # NAME ARGUMENT...
{
    local name=$1 pids=() status=0
    shift
    for i in "${hosts[@]}"; do
        (
            export TF_CONFIG="{\"cluster\": {\"worker\": [\"${addresses//,/\",\"}\"]},
                \"task\": {\"type\": \"worker\", \"index\": $((i - 1))}}"
            # shellcheck disable=SC2016
            exec timeout 100 ip netns exec "$id-$i" sh -c 'mount -t tmpfs none /dev/shm && exec "$@"' sh \
                "$build/meshflow" "${training[@]}" "$@"
        ) >"$work/log.$i" 2>&1 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
    cat "$work"/log.? >"$work/log"
    [ "$status" != 0 ] || [ "$(weights "$work/log")" = "$alone" ] || status="other weights than alone"
    verdict "$name" "$status"
}

"$build/meshflow" "${training[@]}" >"$work/log" 2>&1
verdict "a training on one host" $? '"weights_sha256"'
alone=$(weights "$work/log")
train_everywhere "the same on three hosts over TLS, with equal weights" --tls-dir "$work/tls"
if [ -e "$build/plugins/meshflow-ucx.so" ]; then
    train_everywhere "and over UCX" --transport ucx --trusted-network
fi

want=failure
setup() { if [ "$1" = 2 ]; then with_tls "$work/other/worker-2"; else with_tls "$work/tls/worker-$1"; fi; }
talk "a host with a certificate of another authority is kept out" grpc "certificate is not from our authority"

setup() { if [ "$1" = 2 ]; then with_tls "$work/tls/worker-1"; else with_tls "$work/tls/worker-$1"; fi; }
talk "a task with the certificate of another is kept out" grpc "its certificate is that of worker 1"

setup() { unset MESHFLOW_TLS_CA MESHFLOW_TLS_CERT MESHFLOW_TLS_KEY; }
talk "without certificates nothing starts between hosts" grpc "meshflow cert --out DIR"

if [ -e "$build/plugins/meshflow-ucx.so" ]; then
    talk "UCX does not start between hosts by itself" ucx "does not encrypt"
    want=ok
    setup() { export MESHFLOW_TEST_TRUSTED=1; }
    talk "tasks on three hosts talk over UCX" ucx "task 0 of 3: ok" "task 2 of 3: ok"
else
    skip "tasks on three hosts talk over UCX" "libucx-dev is not installed"
fi
finish
