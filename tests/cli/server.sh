# shellcheck shell=sh disable=SC2154
# SPDX-License-Identifier: Apache-2.0
#
# Part of run.sh: a server of ours, and what runs on it.

"$program" server --cluster '{"worker": ["localhost:0"]}' >served 2>log &
server=$!
for _ in $(seq 100); do
    [ -s served ] && break
    sleep 0.1
done
target=$(sed -n 's/^serving at //p' served)
ok "a graph runs on a server" "[[22.5 27.5]]" -- \
    graph run "$hello" --target "$target" --feed 'x=[[1,2,3]]' --fetch y
fails "what fails on a server" "/job:worker/replica:0/task:0" "{{node x}}" -- \
    graph run "$hello" --target "$target" --fetch y
fails "what no graph has" "no node 'nobody'" -- \
    graph run "$hello" --target "$target" --target nobody --fetch y
fails "a run on a server has no trace" "cannot be traced" -- \
    graph run "$hello" --target "$target" --feed 'x=[[1,2,3]]' --fetch y --trace t.json

# Servers do the steps: the weights are those of a training without them, bit by bit.
train_there() # ARGUMENT...
{
    "$program" train --model wide-deep --data synthetic-ctr --set count=200 --steps 11 --batch 48 \
        --optimizer adam --quiet --json "$@" 2>err | grep -o '"weights_sha256":"[0-9a-f]*"'
}
train_there >here
train_there --target "$target" --out trained --save-steps 4 >there
check "a server's steps give the same weights" test -s here -a "$(cat here)" = "$(cat there)"
check "what servers trained is on disk" "$program" ckpt verify trained
wrong "servers and a strategy" "give one of them" -- \
    train --model mlp --data fashion-mnist --target "$target" --strategy mirrored
fails "servers that are no target" "a server's is grpc://host:port" -- \
    train --model wide-deep --data synthetic-ctr --target localhost:1 --quiet

kill $server
wait $server
code=0 got=$?
cp served out
verdict "a server ends when it is told to" "serving at grpc://localhost:"
fails "nobody is there" "asking the server at localhost:" "Connection refused" -- \
    train --model wide-deep --data synthetic-ctr --target "$target" --timeout 1 --quiet
