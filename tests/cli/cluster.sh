# SPDX-License-Identifier: Apache-2.0
#
# Part of run.sh: env, topo and launch.

two='{"cluster":{"worker":["127.0.0.1:1","127.0.0.1:2"],"ps":["127.0.0.1:3"]},"task":{"type":"worker","index":1}}'
unset TF_CONFIG RANK WORLD_SIZE MESHFLOW_THREADS OMP_NUM_THREADS MESHFLOW_RENDEZVOUS MESHFLOW_HOSTFILE

# ---- doctor env
ok "env of a process alone" "by nothing" "/job:worker/task:0" "chief              yes" "rank               0 of 1" -- doctor env
export TF_CONFIG=$two
ok "env with TF_CONFIG" "by TF_CONFIG" "/job:worker/task:1   (TF_CONFIG task)" "1 of 2 that train" \
    "/job:ps/task:0     127.0.0.1:3   (TF_CONFIG cluster.ps[0])" -- doctor env
ok "env as json" -- doctor env --json
check "env as json: what it means" json "(d['task'], d['rank'], d['size'], d['processes'], d['chief'], d['mistakes']) ==
    ('/job:worker/task:1', 1, 2, 3, False, []) and d['tasks'][2]['address'] == '127.0.0.1:3'"
ok "flags win, with either spelling" "by flags" "/job:ps/task:0" "note: flags specifies" -- \
    env --worker_hosts a:1,b:1 --ps-hosts c:1 --job_name=ps --task-index 0
export RANK=7
ok "a weaker convention that is wrong is noted" "note: torchrun is also set, wrongly" -- doctor env
unset RANK
TF_CONFIG='{"cluster":{"worker":["a:x","b:1"],"pss":["c:1"]},"task":{"type":"worker","index":0}}'
fails "env shows every mistake" "mistake: TF_CONFIG cluster.worker[0]: port 'x' is not a number" \
    "mistake: TF_CONFIG cluster.pss: there is no job 'pss'" "fix: did you mean 'ps'?" "2 mistakes" -- doctor env
fails "env shows them as json" '"place":"TF_CONFIG cluster.worker[0]"' -- doctor env --json
unset TF_CONFIG
"$program" train --model mlp --data fashion-mnist --steps 1 --no-test --quiet --store file:alone >out 2>err </dev/null
check "a store without a cluster is not used, and that is said" grep -q 'trains alone.*the store is not used' err
echo '{"worker": ["a:1", "b:1"]}' >cluster.json
ok "env reads a file" "/job:worker/task:1" "cluster.json worker[1]" -- doctor env --cluster cluster.json --task_index 1
printf '# hosts\na slots=2\nb:1\n' >hosts
ok "env reads a hostfile" "by hostfile" "b:2222" -- doctor env --hostfile hosts --task-index 2
fails "a hostfile that does not say which" "which of its 3 tasks" -- doctor env --hostfile hosts
export SLURM_PROCID=1 SLURM_STEP_ID=0 SLURM_NTASKS=3 SLURM_JOB_ID=5 SLURM_STEP_NODELIST='n[09-11]'
ok "env under srun" "by Slurm" "n10" "rendezvous         n09:2" -- doctor env
ok "the last of an engine's processes are servers" "/job:worker/task:1" "1 of 2 that train" -- doctor env --ps 1
unset SLURM_PROCID SLURM_STEP_ID SLURM_NTASKS SLURM_JOB_ID SLURM_STEP_NODELIST
wrong "env with a wrong number" "--ps expects an integer" -- doctor env --ps x

# ---- threads
core=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
taskset -c "$core" "$program" doctor env >out 2>err
check "a process that is bound to one core has one thread" grep -qF "threads            1   (usable cores)" out
export OMP_NUM_THREADS=3
ok "threads of OpenMP" "threads            3   (OMP_NUM_THREADS)" -- doctor env
export MESHFLOW_THREADS=1
ok "threads of ours" "threads            1   (MESHFLOW_THREADS)" -- doctor env
unset OMP_NUM_THREADS MESHFLOW_THREADS

# ---- doctor topo
ok "topo" "processor" "caches" "NUMA node" "this process:" "threads" -- doctor topo
ok "topo as json" -- doctor topo --json
check "topo as json: numbers" json "d['cores'] >= 1 and d['memory_bytes'] > 0 and d['process']['threads'] >= 1"
check "topo as json: nodes have memory" json "d['numa_nodes'] and all(n['memory_bytes'] > 0 for n in d['numa_nodes'])"
export HWLOC_XMLFILE=$root/tests/cli/machines/two_gpus.xml
ok "topo of a machine with accelerators" "packages 2, cores 4" "NUMA node 1      32 GiB, cores 2-3" \
    "NVIDIA A100-SXM4-40GB (3D controller), 40 GiB, NUMA node 1, PCI 0000:81:00.0, cuda0, nvml0" \
    "ASPEED Technology, Inc. ASPEED Graphics Family (display), NUMA node 0" "1da3:1000 (accelerator), NUMA node 1" -- doctor topo
ok "topo of a machine with accelerators as json" -- doctor topo --json
check "topo as json: devices, and no network card" json "[(x['pci'], x['kind'], x['memory_bytes'], x['numa_node']) for x in d['devices']] ==
    [('0000:02:00.0', 'display', 0, 0), ('0000:81:00.0', '3D controller', 40 << 30, 1), ('0000:82:00.0', 'accelerator', 0, 1)]"
HWLOC_XMLFILE=$work/none.xml
ok "topo of a file that is not there shows this machine" "this process:" -- doctor topo
unset HWLOC_XMLFILE
HWLOC_SYNTHETIC="pack:2 numa:1(memory=8589934592) core:2 pu:1" ok "topo of a synthetic machine" \
    "packages 2, cores 4" "NUMA node 1      8 GiB, cores 2-3" "devices          none found" -- doctor topo

# ---- launch
task='import json, os, sys, time; t = json.loads(os.environ["TF_CONFIG"])["task"]; w, i = t["type"], t["index"]'
launch() # CODE NAME PATTERN... -- ARGUMENT...: like expect, but the launcher may speak on stderr
{
    code=$1
    shift
    name=$1
    shift
    patterns=
    i=0
    while [ "$1" != -- ]; do
        i=$((i + 1))
        eval "pattern_$i=\$1"
        patterns="$patterns \"\$pattern_$i\""
        shift
    done
    shift
    : >log
    timeout 60 "$program" launch "$@" >out 2>err </dev/null
    got=$?
    eval "verdict \"\$name\" $patterns"
}
launch 0 "launch runs this program" "[worker 0]   task               /job:worker/task:0" \
    "[worker 1]   chief              no" "[ps 0]   rank               none" "[master 0]" "(MESHFLOW_THREADS)" -- \
    --workers 2 --ps 1 --masters 1 -- doctor env
launch 0 "launch runs another program" "[worker 0] out worker 0" "[worker 2] err worker 2" -- --workers 3 -- \
    python3 -c "$task; print('out', w, i); print('err', w, i, file=sys.stderr)"
check "stdout stays stdout" test "$(grep -c 'out worker' out)" = 3 -a "$(grep -c . out)" = 3
check "stderr stays stderr" test "$(grep -c 'err worker' err)" = 3 -a "$(grep -c . err)" = 3
launch 0 "lines are whole" "[worker 1] abc" -- --workers 2 -- \
    python3 -c "$task
for c in 'abc': sys.stdout.write(c); sys.stdout.flush(); time.sleep(0.05)"
check "a last line without its end has one" test "$(grep -cx '\[worker [01]\] abc' out)" = 2
launch 0 "no prefix" -- --workers 2 --no-prefix -- echo x
check "no prefix: lines as they are" test "$(grep -cx x out)" = 2
launch 0 "json is the chief's" "[worker 1] {\"i\": 1}" -- --workers 2 --json -- python3 -c "$task; print(json.dumps({'i': i}))"
check "json can be read" json "d == {'i': 0}"
launch 0 "logs" -- --workers 1 --ps 1 --log-dir logs -- python3 -c "$task; print('to', w); print('er', w, file=sys.stderr)"
check "logs by task" grep -qx "to ps" logs/ps-0.out
check "logs by stream" grep -qx "er worker" logs/worker-0.err
launch 7 "a task that fails ends all" "[launch] worker 1 ended with exit code 7: the other tasks are stopped" \
    "meshflow: worker 1 ended with exit code 7" -- --workers 3 --grace 20 -- \
    python3 -c "$task; i == 1 and sys.exit(7); time.sleep(100)"
launch 137 "a task that is killed says by what" "worker 0 was killed by signal 9 (Killed)" -- --workers 2 -- \
    sh -c 'case $TF_CONFIG in *\"index\":0*) kill -9 $$;; esac; exec sleep 100'
launch 3 "who does not listen is killed" "[launch] worker 0 has not ended after 1 s: it is killed" -- \
    --workers 2 --grace 1 -- python3 -c "$task
import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('ready', flush=True)
while i == 1 and not os.path.exists('go'): time.sleep(0.02); open('go', 'w')
i == 1 and time.sleep(0.5); i == 1 and sys.exit(3); time.sleep(100)"
launch 0 "servers that outlive the workers get SIGTERM" "[launch] ps 0 has not followed the workers after 1 s: it is sent SIGTERM" -- \
    --workers 2 --ps 1 --grace 1 -- python3 -c "$task; w == 'ps' and time.sleep(100)"
launch 0 "servers that follow are waited for" "[ps 0] last" -- --workers 1 --ps 1 --grace 20 -- \
    python3 -c "$task; w == 'ps' and (time.sleep(0.5), print('last'))"
launch 0 "a failed task is restarted" "[launch] worker 0 was killed by signal 9 (Killed): restart 1 of 2" "[worker 0] at last 2" -- \
    --max-restarts 2 -- sh -c 'test "$MESHFLOW_RESTARTS" = 2 || kill -9 $$; echo at last $MESHFLOW_RESTARTS'
launch 5 "but not for ever" "restart 1 of 1" "meshflow: worker 0 ended with exit code 5" -- --max-restarts 1 -- sh -c 'exit 5'
launch 2 "a program that is not there" "meshflow: cannot run 'no-such-program': No such file" -- --workers 2 -- no-such-program
launch 2 "launch without a command" "needs -- COMMAND" -- --workers 2
launch 2 "launch of no workers" "--workers expects an integer" -- --workers 0 -- doctor env
launch 0 "ports from a base on" "127.0.0.1:23457" -- --workers 2 --port 23456 -- doctor env
launch 2 "a port beyond the last" "beyond 65535" -- --workers 2 --port 65535 -- doctor env
launch 0 "a task can listen on its port" "[worker 1] served" -- --workers 2 -- python3 -c "$task
import socket
at = json.loads(os.environ['TF_CONFIG'])['cluster']['worker'][i]
s = socket.create_server(('127.0.0.1', int(at.split(':')[1])))
print('served')"
files="import os; print([f for f in sorted(os.listdir('/proc/self/fd')) if os.path.exists('/proc/self/fd/' + f)])"
launch 0 "nothing of the launcher's is open in a task" "[worker 0] $(python3 -c "$files" </dev/null)" -- --workers 2 -- python3 -c "$files"
launch 0 "signals of a task are as usual" "[worker 0] 0000000000000000" -- -- sh -c 'sed -n "s/^SigBlk:\t//p" /proc/self/status'

signalled() # SIGNAL...: starts a launcher whose tasks wait, and sends it the signals
{
    rm -f up-0 up-1
    "$program" launch --workers 2 --grace 30 -- python3 -c "$task
import signal
if '$1' == 'INT': signal.signal(signal.SIGINT, lambda *a: print('interrupted', flush=True))
open('up-%d' % i, 'w'); open('pid-%d' % i, 'w').write(str(os.getpid())); time.sleep(100)" >out 2>err &
    launcher=$!
    for _ in $(seq 500); do [ -e up-0 ] && [ -e up-1 ] && break; sleep 0.02; done
    for s in "$@"; do kill -s "$s" $launcher; sleep 0.3; done
    wait $launcher
    got=$?
}
signalled TERM
code=143
verdict "SIGTERM is passed on" "[launch] Terminated: forwarded to the tasks" "was killed by signal 15"
signalled INT INT
code=137
verdict "a second signal kills" "[worker 0] interrupted" "Interrupt again: killing the tasks"
signalled KILL
gone() { for _ in $(seq 100); do kill -0 "$(cat pid-0)" || kill -0 "$(cat pid-1)" || return 0; sleep 0.02; done; return 1; }
check "tasks do not outlive a launcher that is killed" gone

# ---- a store that is not there, or does not answer
python3 -c '
import socket, time
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
time.sleep(600)' >silent &
silent=$!
for _ in $(seq 100); do [ -s silent ] && break; sleep 0.05; done
stored() # NAME STORE PATTERN...
{
    name="$1" store=$2
    shift 2
    fails "$name" "has been waiting for it for" "worker 0 waited 2 s without success for the store $store: " "; fails in" \
        "(change with --timeout)" "$@" -- train --model wide-deep --data synthetic-ctr --steps 3 --quiet \
        --cluster '{"worker":["127.0.0.1:1"]}' --store "$store" --timeout 2 --param stall_report_ms=100
}
stored "a store that is not there" etcd://127.0.0.1:1/a "Couldn't connect to server"
stored "a store that does not answer" "etcd://127.0.0.1:$(cat silent)/a" "no reply in time"
kill $silent
MESHFLOW_STORE=etcd://127.0.0.1:1/a launch 1 "a master without its store fails in time" \
    "master 0 waited 1 s without success for the store etcd://127.0.0.1:1/a: " -- \
    --workers 1 --masters 1 -- "$program" train --model wide-deep --data synthetic-ctr --steps 3 --quiet --timeout 1

# ---- a host whose name is not known
for places in '"127.0.0.1:1025","nobody.invalid:1026"/0' '"nobody.invalid:1026","127.0.0.1:1025"/1'; do
    fails "a host name that does not resolve, worker ${places##*/}" "has been waiting for it for" \
        "at nobody.invalid:1026: the name 'nobody.invalid' does not resolve: " -- train \
        --model wide-deep --data synthetic-ctr --steps 3 --quiet --cluster "{\"worker\":[${places%/*}]}" \
        --job-name worker --task-index "${places##*/}" --insecure-any-peer --timeout 2 --param stall_report_ms=100
done

fails "addresses of the local transport are no host names" "waiting for worker 1 at 127.0.0.1:1026: it has not connected" \
    -- train --model wide-deep --data synthetic-ctr --steps 3 --quiet --timeout 1 --param stall_report_ms=100 --job-name worker \
    --cluster '{"worker":["127.0.0.1:1025","127.0.0.1:1026"]}' --task-index 0 --transport local

# ---- scale
wrong "scale without a number" "either --workers or --hosts" -- job scale nobody
wrong "scale with two ways to say it" "either --workers or --hosts" -- job scale nobody --workers 2 --hosts key:hosts
wrong "a list has a place" "--put needs a key of the store" -- job scale nobody --workers 2 --put hosts.txt
