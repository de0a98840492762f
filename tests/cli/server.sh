# shellcheck shell=sh disable=SC2034,SC2154
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
fails "a failure on a server names task and node" "/job:worker/replica:0/task:0" "{{node x}}" -- \
    graph run "$hello" --target "$target" --fetch y
fails "a fetch that the graph does not have" "no node 'nobody'" -- \
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
check "the checkpoint of a training on servers is valid" "$program" ckpt verify trained
wrong "servers and a strategy" "give only one of them" -- \
    train --model mlp --data fashion-mnist --target "$target" --strategy mirrored
wrong "servers that are no target" "write grpc://host:port" -- \
    train --model wide-deep --data synthetic-ctr --target localhost:1 --quiet

# ---- a cluster in one process: its weights are those of one process, too
"$program" server --local worker=2,ps=1 >several 2>log &
several=$!
for _ in $(seq 100); do
    grep -q '^cluster ' several && break
    sleep 0.1
done
check "three tasks of one process" test "$(grep -c '^serving /job:.*/task:. at grpc://127.0.0.1:' several)" = 3
train_there --shards 2 >alone
train_there --shards 2 --target "$(sed -n 's,^serving /job:worker/task:1 at ,,p' several)" >there_too
check "a cluster in one process gives the same weights" test -s alone -a "$(cat alone)" = "$(cat there_too)"
ok "a cluster in one process is drawn" "graph cluster {" "worker" "ps" -- \
    topo --dot --cluster "$(sed -n 's/^cluster //p' several)"
kill "$several"
check "a cluster in one process ends well" wait "$several"
wrong "a cluster of its own and another" "remove --cluster" -- server --local worker=1 --cluster '{}'
wrong "several tasks and one" "remove --job-name" -- server --here --job-name worker
wrong "a cluster of nothing" "as in worker=2,ps=1" -- server --local worker
wrong "no task is here" "none of the cluster's 1 tasks is on this host" -- \
    server --here --cluster '{"worker": ["192.0.2.7:2222"]}'

# ---- doctor, topo: what is there and what is not
address=${target#grpc://}
ok "doctor of this host" "plugin" "disk" "no cluster was checked" -- doctor
ok "doctor of a cluster" "Meshflow 0.1.0, 1 device" "clock" -- \
    doctor --cluster "{\"worker\": [\"$address\"]}"
fails "doctor of mistakes" "cluster.ps[0] ($address): /job:worker/task:0 has the same address" \
    "give one of them another port" "reports that it is /job:worker/replica:0/task:0" \
    "cluster.workers: programs expect a job 'worker'" "its host name does not resolve" \
    "cluster.workers[1] (127.0.0.1:1): no server listens there" "mkdir -p $work/nowhere" -- \
    doctor --cluster "{\"worker\": [\"$address\"], \"ps\": [\"$address\"],
                       \"workers\": [\"nobody.invalid:1\", \"127.0.0.1:1\"]}" --dir "$work/nowhere"
fails "doctor of no JSON" "--cluster: the cluster is not JSON" -- doctor --cluster '{'
ok "doctor of a task that is to start here" "this task can listen there" -- \
    doctor --cluster "{\"worker\": [\"$address\", \"localhost:1025\"]}" --job-name worker --task-index 1
fails "doctor of a task that is elsewhere" "cannot listen there" -- \
    doctor --cluster "{\"worker\": [\"192.0.2.7:2222\"]}" --job-name worker --timeout 0.2
ok "topo of a cluster" "host localhost" "/job:worker/task:0 $address: Meshflow 0.1.0" \
    "/job:ps/task:0 localhost:1: not reachable" -- \
    topo --cluster "{\"worker\": [\"$address\"], \"ps\": [\"localhost:1\"]}"
ok "a cluster is drawn" "graph cluster {" "shape=cylinder, style=dashed" "Meshflow 0.1.0" -- \
    topo --dot --cluster "{\"worker\": [\"$address\"], \"ps\": [\"localhost:1\"]}"
wrong "doctor topo --dot without a cluster" "give --cluster" -- doctor topo --dot
"$program" cert --out certs >out 2>err
ok "doctor of certificates" "it matches its key" "more days" -- doctor --tls-dir certs
chmod 644 certs/key.pem
fails "doctor of a key that others may read" "other users can read this key" "chmod 600" -- \
    doctor --tls-dir certs
cp certs/ca.pem certs/cert.pem
fails "doctor of a certificate of another key" "is not the key of" -- doctor --tls-dir certs

kill $server
wait $server
code=0 got=$?
cp served out
verdict "a server ends on SIGTERM" "serving at grpc://localhost:"
fails "no server listens" "request to the server at localhost:" "Connection refused" -- \
    train --model wide-deep --data synthetic-ctr --target "$target" --timeout 1 --quiet

fails "graph run tells what it waits for, and fails" "waiting for the server at localhost:" \
    "Connection refused; fails in" "(change with --wait)" "meshflow: request to the server at localhost:" -- \
    graph run "$hello" --feed 'x=[[1,2,3]]' --fetch y --target "$target" --wait 1 --param stall_report_ms=100
fails "train --target tells what it waits for, and fails" "at localhost:" "Connection refused; fails in" \
    "(change with --timeout)" "meshflow: request to the server at localhost:" -- train --model wide-deep \
    --data synthetic-ctr --target "$target" --timeout 2 --quiet --param stall_report_ms=100
"$program" graph run "$hello" --feed 'x=[[1,2,3]]' --fetch y --target grpc://nobody.invalid:1 --insecure-any-peer \
    2>unknown &
waits=$!
for _ in $(seq 300); do
    grep -q 'does not resolve' unknown && break
    sleep 0.1
done
kill $waits
wait $waits 2>/dev/null
cp unknown err
check "graph run tells that a name does not resolve" \
    grep -q "server at nobody.invalid:1 for .*the name 'nobody.invalid' does not resolve; fails in .* s (change with --wait" err

# ---- a cluster: a parameter server, two workers
cluster=$(python3 -c '
import json, socket
s = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
a = ["127.0.0.1:%d" % x.getsockname()[1] for x in s]
print(json.dumps({"ps": a[:1], "worker": a[1:]}))')
tasks=
for task in "ps 0" "worker 0" "worker 1"; do
    "$program" server --cluster "$cluster" --job-name "${task% *}" --task-index "${task#* }" >>served 2>log &
    tasks="$tasks $!"
done
for _ in $(seq 100); do
    "$program" doctor topo --cluster "$cluster" | grep -q "not reachable" || break
    sleep 0.1
done
ok "doctor of three tasks" "cluster.worker[1]" "clock" -- doctor --cluster "$cluster"
target=grpc://$(python3 -c 'import json, sys; print(json.loads(sys.argv[1])["worker"][0])' "$cluster")
train_there --target "$target" >there
check "a cluster's steps give the same weights" test -s here -a "$(cat here)" = "$(cat there)"
ok "another model's variables have the same names" '"steps":3' -- \
    train --model 'wide-deep width=4' --data synthetic-ctr --set count=200 --steps 3 --quiet --json --target "$target"
# shellcheck disable=SC2086
kill $tasks
# shellcheck disable=SC2086
wait $tasks

# ---- a model is served; tests/serve/serve.py asks it
wrong "serving nothing" "CKPT" -- serve
wrong "serving at no port" "--port" -- serve trained --port 70000
wrong "serving a layout without a mesh" "need --mesh" -- serve trained --layout batch:rows
fails "serving what is not there" "model.json" "hint" -- serve nowhere
