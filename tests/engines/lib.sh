# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
#
# What the scripts of this directory have in common: TAP lines and counts, and the job that all
# engines must bring to the same weights.
n=0 failed=0 skipped=0
work=$(mktemp -d)

verdict() # NAME STATUS [PATTERN...]: of what wrote $work/log, which must contain the patterns
{
    local name=$1 status=$2 why=
    shift 2
    n=$((n + 1))
    [ "$status" = 0 ] || why="status $status"
    for part in "$@"; do
        grep -qF -e "$part" "$work/log" || why="$why; no '$part'"
    done
    if [ -z "$why" ]; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        echo "#   $why"
        head -n 40 "$work/log" | sed 's/^/#   /'
        failed=$((failed + 1))
    fi
}

skip() # NAME WHY: with CI=true nothing may be missing
{
    n=$((n + 1))
    if [ "${CI:-}" = true ]; then
        echo "not ok $n - $1"
        echo "#   missing, and CI=true: $2"
        failed=$((failed + 1))
    else
        echo "ok $n - $1 # SKIP $2"
        skipped=$((skipped + 1))
    fi
}

finish()
{
    echo "$((n - failed - skipped)) passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
}

job=(train --model fashion-cnn --data fashion-mnist --batch 64 --steps 50 --optimizer momentum
    --lr 0.05 --seed 1 --json --quiet --no-test)
weights=

alone() # PROGRAM: what one process makes of the job
{
    "$1" "${job[@]}" >"$work/log" 2>&1
    verdict "one process" $? '"workers":1,' '"weights_sha256":"'
    weights=$(grep -o '"weights_sha256":"[0-9a-f]*"' "$work/log")
}

trained() # NAME WORKERS COMMAND...: a training with that many workers gives the same weights
{
    local name=$1 workers=$2
    shift 2
    timeout 180 "$@" >"$work/log" 2>&1
    verdict "$name" $? "\"workers\":$workers," "${weights:-no weights to compare with}"
}

all_trained() # NAME WORKERS START...: START 0, START 1, ... are started at once
{
    local name=$1 workers=$2 pids=() status=0
    shift 2
    for ((i = 0; i < workers; i++)); do
        "$@" "$i" >"$work/log.$i" 2>&1 &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
    cat "$work"/log.? >"$work/log"
    verdict "$name" "$status" "\"workers\":$workers," "${weights:-no weights to compare with}"
}
