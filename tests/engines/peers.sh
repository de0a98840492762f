#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: peers.sh BUILD_DIR      workers on three hosts communicate only with each other
#
# All packets are captured that hosts send while they train, without a launcher, a master or a store:
# every two hosts talk, there is no fourth, and none sends more than twice what they send on average.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
. tests/engines/lib.sh
. tests/engines/hosts.sh
program=$PWD/$1/meshflow
make_hosts "workers on three hosts talk to each other" || exit

alone "$program"
"$program" cert --out "$work/tls" --host $net.1 --host $net.2 --host $net.3 \
    --task 'worker 0' --task 'worker 1' --task 'worker 2' >"$work/log" 2>&1
verdict "certificates for three hosts" $? "for worker 2"

more=()
port=2222
worker() # INDEX
{
    TF_CONFIG="{\"cluster\":{\"worker\":[\"$net.1:$port\",\"$net.2:$port\",\"$net.3:$port\"]},
        \"task\":{\"type\":\"worker\",\"index\":$1}}" \
        timeout 150 ip netns exec "$id-$(($1 + 1))" "$program" "${job[@]}" --tls-dir "$work/tls" "${more[@]}"
}

captured() # NAME: what hosts send while they train
{
    local name=$1 listening
    coproc tests/engines/capture.py "$id.1" "$id.2" "$id.3" 2>"$work/capture.err"
    local from=${COPROC[0]} to=${COPROC[1]} pid=$COPROC_PID
    read -r -u "$from" listening
    all_trained "$name" 3 worker
    exec {to}>&-
    cat <&"$from" >"$work/sent"
    wait "$pid"
    { echo "${listening:-not listening}"; cat "$work/sent" "$work/capture.err"; } >"$work/log"
    awk -v net="$net" '
        $1 !~ "^" net "\\.[123]$" || $2 !~ "^" net "\\.[123]$" { strangers = 1 }
        { sum += $3; by[$1] += $3; pairs += $3 > 100000 }
        END {
            for (h in by)
                if (by[h] * 3 > 2 * sum) exit 1
            exit strangers || pairs != 6 || sum < 10000000
        }' "$work/sent"
    verdict "$name: only peers talk, all of them, and none for two" $? "listening"
    sed 's/^/# /' "$work/sent"
}

captured "sums of gradients"
more=(--strategy "multi_worker_mirrored collective=ring") port=2322
captured "sums in a ring"
weights='"weights_sha256":"' # pieces are summed in another order
more=(--mesh all:3 --layout 'batch:all;slots:all') port=2422
captured "a mesh"
finish
