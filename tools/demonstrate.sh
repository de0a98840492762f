#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: demonstrate.sh PROGRAM [EPOCHS]
#
# Trains on Fashion-MNIST with three workers, two parameter servers and two masters on this machine.
# During the training a worker, a server and a master are killed, and a worker joins. Then one process
# trains the same, and the weights are compared.
set -euo pipefail
program=$(realpath "$1")
epochs=${2:-2}
cd "$(dirname "$0")/.."
out=build/train
job=clothes-$$
settings=(--model fashion-cnn --data fashion-mnist --epochs "$epochs" --batch 128 --optimizer momentum
    --lr 0.06 --schedule one_cycle)
log=$(mktemp) said=$(mktemp) events=$(mktemp)
trap 'rm -f "$log" "$said" "$events"' EXIT

say() { printf '\n>>> %s\n' "$*"; }

# task NAME: its process id; "": not running
task() { "$program" job status --json "$job" 2>/dev/null | tr '{' '\n' |
    sed -n '/^"task":"'"$1"'".*"alive":true/s/.*"pid":\([0-9]*\).*/\1/p' | head -n 1 || true; }
steps() { "$program" job status --json "$job" 2>/dev/null |
    grep -o '"step":[0-9]*' | cut -d : -f 2 | sort -n | tail -n 1 || true; }

# await_step N: waits until the training reaches step N or ends
await_step() {
    while kill -0 "$launcher" 2>/dev/null; do
        local now
        now=$(steps)
        [ "${now:-0}" -lt "$1" ] || return 0
        sleep 0.2
    done
}

# end NAME PID
end() {
    [ -n "$2" ] || return 0
    local step
    step=$(steps)
    say "$1 (process $2) is killed after step $step"
    kill -KILL "$2" && kills=$((kills + 1))
    printf '%s\t%s killed\n' "$step" "$1" >>"$events"
}

total=$((epochs * 469))
kills=0
say "three workers, two parameter servers and two masters train $epochs epochs; watch with: $program job status --watch $job"
rm -rf "$out"
MESHFLOW_LOG=info "$program" launch --masters 2 --workers 3 --ps 2 --max-restarts 9 --json -- \
    train "${settings[@]}" --name "$job" --out "$out" --json >"$log" \
    2> >(grep --line-buffered -v -E 'this parameter server holds|shards are assigned' | tee "$said" >&2) &
launcher=$!
await_step $((total / 5))
end "worker 1" "$(task 'worker 1')"
await_step $((total * 2 / 5))
end "ps 0" "$(task 'ps 0')"
await_step $((total * 3 / 5))
end "master 0" "$(head -n 1 < <(tr ' ' '\n' <"/proc/$launcher/task/$launcher/children"))"
await_step $((total * 7 / 10))
say "one more worker joins"
printf '%s\tworker 3 joins\n' "$(steps)" >>"$events"
"$program" job join "$job" >/dev/null 2>&1 &
wait "$launcher"
say "one process trains the same alone"
alone=$("$program" train "${settings[@]}" --quiet --json --overwrite --out "$out-alone")
field() { sed -n 's/.*"'"$1"'":"\{0,1\}\([^",}]*\).*/\1/p' | tail -n 1; }
a=$(field weights_sha256 <"$log")
b=$(field weights_sha256 <<<"$alone")
cp "$events" "$out/events.tsv"
printf '%s\n%s\n' "$a" "$b" >"$out/weights_sha256"
times=$(grep -o 'is complete, [0-9]* ms after' "$said" | grep -o '[0-9]*' | sort -n || true)
say "accuracy on the test set: $(field accuracy <"$log"); checkpoints, events and the curve: $out"
echo "weights_sha256 of the cluster: $a"
echo "weights_sha256 of one process: $b"
"$program" audit "$out" | tail -n 1
[ -z "$times" ] || echo "recovery time, from a killed process to the next step: $(head -n 1 <<<"$times") to $(tail -n 1 <<<"$times") ms"
echo "$kills processes were killed; $([ "$a" = "$b" ] && echo "0 steps were lost, the weights are the same" ||
    echo "THE WEIGHTS DIFFER")"
[ -n "$a" ] && [ "$a" = "$b" ]
