#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Usage: run.sh PROGRAM      runs every command of it, rightly and wrongly
#
# Checks exit codes, output and messages; no command may be killed by a signal.
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
hello=$root/examples/hello.pbtxt
train=$root/examples/train_step.pbtxt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
n=0 failed=0

verdict() # NAME PATTERN...: compares $got with $code and looks for the patterns in out and err
{
    name=$1
    shift
    n=$((n + 1))
    why=
    [ "$got" = "$code" ] || why="exit code $got, expected $code"
    for part in "$@"; do
        cat out err | grep -qF -e "$part" || why="$why; no '$part'"
    done
    if [ -z "$why" ]; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        echo "#   $why"
        cat out err log | head -n 20 | sed 's/^/#   /'
        failed=$((failed + 1))
    fi
}

# ok, fails, wrong: NAME [PATTERN...] -- ARGUMENT...: exit code 0, 1, 2; the output, or the message,
# contains the patterns. A failure is one line that begins with "meshflow: ".
expect()
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
    "$program" "$@" >out 2>err </dev/null
    got=$?
    if [ "$code" != 0 ] && [ "$(grep -c '^meshflow: ' err)" != 1 ]; then got="$got without a message"; fi
    if [ "$code" = 0 ] && [ -s err ]; then got="$got with a message"; fi
    eval "verdict \"\$name\" $patterns"
}
ok() { expect 0 "$@"; }
fails() { expect 1 "$@"; }
wrong() { expect 2 "$@"; }

check() # NAME COMMAND...: it succeeds. It may read out and err.
{
    name=$1
    shift
    "$@" >log 2>&1
    got=$? code=0
    verdict "$name"
}

json() # EXPRESSION about d, which the last line of out holds
{
    python3 -c "import json; d = json.loads(open('out').read().splitlines()[-1]); assert ($1), d"
}

# ---- help and versions
wrong "vars wants a job" "JOB" -- job vars
fails "vars of a job that is not there" "there is no job 'nobody'" -- job vars nobody
ok "help lists the commands" "job  " "graph" "ops" "params" -- help
ok "--help does too" "usage: meshflow COMMAND" -- --help
ok "help of a group" "graph optimize" -- help graph
ok "help of a command" "--fetch NODE:PORT" "examples:" -- graph run --help
ok "a man page" ".TH MESHFLOW-GRAPH-RUN 1" -- help graph run --man
wrong "help of nothing" "there is no command 'nothing'" -- help nothing
ok "--version" "meshflow 0." "SLEEF" -- --version
ok "version" "protobuf-c" -- version
mkdir man
ok "man pages into a directory" -- help --man-dir man
check "one man page per command" test -s man/meshflow.1 -a -s man/meshflow-graph-run.1 -a -s man/meshflow-job-status.1
check "no man pages of old spellings" test ! -e man/meshflow-status.1 -a ! -e man/meshflow-events-show.1
ok "a man page of a group's command" ".TH MESHFLOW-JOB-STATUS 1" "meshflow\\-job\\-hang (1)" -- help job status --man
ok "options of train have headings" "optimization:" "fault tolerance:" "(default: 32)" -- train --help
ok "help of a group that is a command too" "--tls-dir DIR" "doctor topo" -- doctor --help
ok "help of a group whose old spelling is a command" "queue submit" "queue daemon" -- queue --help
for old in jobs queue env topo; do
    ok "old spelling: $old" -- "$old"
done
ok "help of an old spelling" "usage: meshflow job set JOB" -- set --help
wrong "an old spelling called wrongly" "meshflow job vars needs JOB" "meshflow job vars --help" -- vars
wrong "an old spelling mistyped" "did you mean \`meshflow job status\`?" -- statsu
wrong "a command that the group has not" "no command 'job statsu'" "did you mean \`meshflow job status\`?" -- job statsu
wrong "no command" "name a command" -- --verbose
wrong "a group alone" "name one of its commands" "meshflow graph --help" -- graph
wrong "an unknown command" "no command 'grap'" "did you mean" -- grap run x
wrong "an unknown option" "no option '--fecth'" "did you mean --fetch?" -- graph run "$hello" --fecth y
wrong "an option without its value" "--fetch needs a value" -- graph run "$hello" --fetch

# ---- graph run
ok "run prints what was fetched" "y:0 float[2,2]" "[[22.5 27.5]" -- \
    graph run "$hello" --feed 'x=[[1,2,3],[0,0,0]]' --fetch y
ok "run as json" -- graph run "$hello" --feed 'x=[[1,2,3]]' --fetch y --fetch product:0 --json
check "json has the values" json "d['fetches'][0] == {'name': 'y:0', 'dtype': 'float',
    'shape': [1, 2], 'values': [[22.5, 27.5]], 'crc32': d['fetches'][0]['crc32']} and
    d['fetches'][1]['values'] == [[22, 28]] and d['seconds'] > 0"
ok "run saves arrays" -- graph run "$hello" --feed 'x=[[1,2,3],[4,5,6]]' --fetch x --save x=x.npy \
    --save product=p.npy --save-all all.npz
ok "run reads an array" "[[22.5 27.5]" "[49.5 63.5]]" -- graph run "$hello" --feed x=x.npy --fetch y
ok "run reads a member of an archive" "[[22.5 27.5]" -- \
    graph run "$hello" --feed x=all.npz:x:0 --fetch y
ok "run repeats and traces" "5 runs: median" -- graph run "$hello" --feed x=x.npy --fetch y --repeat 5 \
    --trace trace.json --threads 2 --timeout 10000 --disable fold,cse
check "the trace is json" python3 -c "import json; assert json.load(open('trace.json'))['traceEvents']"
ok "targets run first, in order" "loss:0 float[]" "1." -- \
    graph run "$train" --target init --target train --target train --fetch loss
ok "targets alone" -- graph run "$train" --target init
ok "the critical path" "critical path: 2 nodes of 2 executions" "MatMul  product" "AddV2  y" -- \
    graph run "$hello" --feed x=x.npy --fetch y --critical-path --disable fuse
ok "the critical path, and a trace" '"critical_path":{"seconds":' '"name":"product","op":"MatMul"' -- \
    graph run "$hello" --feed x=x.npy --fetch y --critical-path --json --trace t.json
ok "parameters" -- graph run "$hello" --feed x=x.npy --fetch y --param pool_spin_rounds=0 --param session_cache_runs=0
# a checkpoint of w = 4, written by the graph's own ops
strings() # NAME TEXT SHAPE: a constant
{
    echo "node { name: '$1' op: 'Const' attr { key: 'dtype' value { type: DT_STRING } }
          attr { key: 'value' value { tensor { dtype: DT_STRING tensor_shape { $3 } string_val: '$2' } } } }"
}
saver() # PREFIX: the training graph with a node `save`
{
    cat "$train"
    strings prefix "$1" ''
    strings keys w 'dim { size: 1 }'
    strings slices '' 'dim { size: 1 }'
    echo "node { name: 'save' op: 'SaveV2' input: 'prefix' input: 'keys' input: 'slices' input: 'w/read'
          attr { key: 'dtypes' value { list { type: DT_FLOAT } } } }"
}
mkdir in out_of_reach
saver "$work/in/ckpt" >in/saver.pbtxt
saver "$work/out_of_reach/ckpt" >in/escaper.pbtxt
ok "a graph saves its variables" -- graph run in/saver.pbtxt --target init --target train --target train --target save
cd in || exit 1
fails "a graph saves no file outside the allowed folders" "--allow-dir" -- graph run escaper.pbtxt --target init --target save
ok "a graph saves a file in a folder of --allow-dir" -- graph run escaper.pbtxt --target init --target save --allow-dir ../out_of_reach
cd .. || exit 1
ok "restore" "w/read:0 float[]" "4." -- graph run "$train" --restore in/ckpt --fetch w/read
ok "restore, then train" "3.5" -- graph run "$train" --restore in/ckpt --target train --fetch w/read
echo 'node { name: "w" op: "VariableV2" attr { key: "dtype" value { type: DT_FLOAT } }
             attr { key: "shape" value { shape { } } } }' >reference.pbtxt
ok "restore the other kind of variable" "w:0 float[]" "4." -- graph run reference.pbtxt --restore in/ckpt --fetch w
fails "a missing checkpoint" "none" "CHECKPOINT.index" -- graph run "$train" --restore none --fetch w/read
sed 's/"w"/"v"/; s/"w\/read"/"v\/read"/; s/s: "w"/s: "v"/; s/input: "w"/input: "v"/' "$train" >other.pbtxt
fails "a checkpoint of another graph" "none of the graph's 1 variables" "it contains w" -- \
    graph run other.pbtxt --restore in/ckpt --fetch v/read
echo 'node { name: "w" op: "VarHandleOp" attr { key: "dtype" value { type: DT_DOUBLE } }
             attr { key: "shape" value { shape { } } } }' >double.pbtxt
fails "a checkpoint of another type" "'w' is float, but the variable is double" -- \
    graph run double.pbtxt --restore in/ckpt --target w
wrong "nothing to run" "nothing to run" "outputs that no node uses: y:0" -- graph run "$hello"

# ---- graph run, broken
: >empty.pb
echo hello >bad.npy
printf '\310\311\312' >garbage.pb
echo 'node { name: "a" op: "MatMull" } node { name: "b" op: "NoOp" }' >unknown.pbtxt
echo 'node { nam: "a" }' >field.pbtxt
cp unknown.pbtxt text.pb
fails "a missing graph" "'none.pb'" "No such file" -- graph run none.pb --fetch y
fails "a directory as graph" "'.'" "directory" -- graph run . --fetch y
fails "an empty graph" "'empty.pb' is empty" -- graph run empty.pb --fetch y
fails "garbage as graph" "'garbage.pb'" "hint: a GraphDef was expected" -- graph run garbage.pb --fetch y
fails "text as a binary graph" "only files whose name ends in .pbtxt" -- graph run text.pb --fetch y
fails "an unknown field" "'field.pbtxt': line 1, column 8" "'nam'" -- graph run field.pbtxt --fetch y
fails "an unknown op" "not registered 'MatMull'" "graph check" -- graph run unknown.pbtxt --fetch y
echo 'node { name: "a" op: "Abort" } node { name: "b" op: "NoOp" }' >unsupported.pbtxt
ok "a graph whose unsupported op is not needed" -- graph run unsupported.pbtxt --target b
fails "an unsupported op that is needed" "does not support the op Abort; docs/reference/ops.md" -- graph run unsupported.pbtxt --target a
fails "a graph with an unsupported op, checked" "NOT SUPPORTED" "does not support the op Abort" -- graph check unsupported.pbtxt
fails "an unknown fetch" "no node 'yy'" "did you mean 'y'" -- graph run "$hello" --fetch yy
fails "an unknown output" "'y:3' does not exist" "has 1 output" -- graph run "$hello" --fetch y:3
fails "a node without outputs" "use --target" -- graph run "$train" --fetch init
wrong "a malformed fetch" "NODE:PORT" -- graph run "$hello" --fetch y:x
fails "an unknown target" "no node 'inti'" "did you mean 'init'" -- graph run "$train" --target inti
fails "an unfed placeholder" "placeholder tensor 'x'" "hint: --feed x=" -- graph run "$hello" --fetch y
fails "an unknown feed" "no node 'q_unknown'" -- graph run "$hello" --feed q_unknown=1 --fetch y
wrong "a malformed feed" "--feed expects NAME=" -- graph run "$hello" --feed x --fetch y
fails "a missing array" "'none.npy'" "No such file" -- graph run "$hello" --feed x=none.npy --fetch y
fails "a bad array" "'bad.npy': not a .npy file" "numpy.save" -- graph run "$hello" --feed x=bad.npy --fetch y
fails "an empty array" "'empty.pb'" -- graph run "$hello" --feed x=empty.pb --fetch y
fails "a directory as array" "directory" -- graph run "$hello" --feed x=. --fetch y
fails "a missing member" "no array 'z'" "it contains" -- graph run "$hello" --feed x=all.npz:z --fetch y
fails "a wrong shape" "shape [1,2], but 'x' has shape [?,3]" -- graph run "$hello" --feed 'x=[[1,2]]' --fetch y
fails "malformed values" "different lengths" -- graph run "$hello" --feed 'x=[[1,2],[3]]' --fetch y
fails "a file that cannot be written" "'none/y.npy'" -- \
    graph run "$hello" --feed x=x.npy --save y=none/y.npy
fails "an unknown pass" "unknown pass 'fuze'" "--list" -- graph run "$hello" --feed x=x.npy --fetch y --disable fuze
fails "an uninitialised variable" "uninitialized" "--target INIT_NODE" -- graph run "$train" --fetch loss
wrong "a number out of range" "--threads expects" -- graph run "$hello" --fetch y --threads -1
wrong "an unknown parameter" "unknown parameter 'spin'" "meshflow params" -- params --param spin=1
fails "a failure in json" '"code":"NOT_FOUND"' -- graph run "$hello" --fetch yy --json
fails "--verbose shows where a failure occurred" "NOT_FOUND" "    at src/" -- graph run "$hello" --fetch yy --verbose
cat >bool.pbtxt <<'GRAPH'
node { name: "i" op: "Placeholder" attr { key: "dtype" value { type: DT_INT32 } } }
GRAPH
fails "a wrong type" "the value is float, but 'i' is int32" "astype('int32')" -- \
    graph run bool.pbtxt --feed i=x.npy --fetch i
fails "a value its type cannot hold" "1.5 is not a value of type int32" -- graph run bool.pbtxt --feed i=1.5 --fetch i
cat >forever.pbtxt <<'GRAPH'
node { name: "c" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
       attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape { } float_val: 1 } } } }
node { name: "enter" op: "Enter" input: "c" attr { key: "T" value { type: DT_FLOAT } }
       attr { key: "frame_name" value { s: "loop" } } }
node { name: "merge" op: "Merge" input: "enter" input: "next" attr { key: "T" value { type: DT_FLOAT } }
       attr { key: "N" value { i: 2 } } }
node { name: "true" op: "Const" input: "^merge" attr { key: "dtype" value { type: DT_BOOL } }
       attr { key: "value" value { tensor { dtype: DT_BOOL tensor_shape { } bool_val: true } } } }
node { name: "cond" op: "LoopCond" input: "true" }
node { name: "switch" op: "Switch" input: "merge" input: "cond" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "next" op: "NextIteration" input: "switch:1" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "exit" op: "Exit" input: "switch" attr { key: "T" value { type: DT_FLOAT } } }
GRAPH
fails "a run that takes too long" "hint: allow more time" -- graph run forever.pbtxt --fetch exit --timeout 100

# ---- graph print, dot, check, optimize
ok "print" "y = AddV2(product:0, b:0) {T=float} : float" -- graph print "$hello"
"$program" graph print "$train" >first
ok "optimize writes a graph" "prune" "cse" "program: " "block of" -- \
    graph optimize "$hello" --fetch y --feed 'x=[2,3]' -o small.pb
ok "an optimized graph gives the same result" "[[22.5 27.5]" -- graph run small.pb --feed x=x.npy --fetch y
ok "optimize for a target" "ResourceApplyGradientDescent" -- graph optimize "$train" --target train --print
ok "passes are listed" "exact" "fold" -- graph optimize --list
ok "a pass can be disabled" "off" -- graph optimize "$hello" --fetch y --feed x --disable cse
wrong "optimize for nothing" "name an output or node" -- graph optimize "$hello"
wrong "optimize nothing" "needs GRAPH" -- graph optimize
wrong "a malformed shape" "is not a shape" -- graph optimize "$hello" --fetch y --feed x=2,a
"$program" graph optimize "$train" --target train --fetch loss -o train.pbtxt >/dev/null
ok "a written text graph is read again" "loss" -- graph print train.pbtxt
ok "dot" "digraph" "y\\nAddV2" "->" -- graph dot "$hello"
ok "check" "the graph is valid" "2  Const" -- graph check "$hello"
fails "check finds unknown ops" "MatMull  UNKNOWN, similar: MatMul" "1 unknown" -- graph check unknown.pbtxt
fails "check as json" '"unknown":["MatMull"]' -- graph check unknown.pbtxt --json
check "the check's json is json" json "d['ok'] is False and d['ops']['NoOp'] == 1"
echo 'node { name: "a" op: "Identity" input: "b" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "b" op: "Identity" input: "a" attr { key: "T" value { type: DT_FLOAT } } }' >cycle.pbtxt
fails "check finds a cycle" "cycle through" -- graph check cycle.pbtxt

# ---- models
ok "models" "mlp" "101,770" "settings: units=[128]" -- models
ok "a model's layers" "conv2d_1 (Conv2D)" "[?,14,14,64]" "parameters: 421,642, trained: 421,642" -- models fashion-cnn
ok "a model with settings for such data" "parameters: 94" -- \
    models mlp units=7 --columns 'image=float[3,3] label=int32[] classes=3' --graph mlp.pbtxt
ok "models --graph writes a graph" "VarHandleOp" -- graph print mlp.pbtxt
ok "layers and losses" "Dense  fully" "units=..." "huber" "delta=1" -- models --kind layers --kind losses
ok "models as Markdown" "| accuracy | fraction" -- models --kind metrics --kind initializers --markdown
for option in "" "--kind layers" "--kind losses" "--kind metrics" "--kind initializers"; do
    "$program" models $option --markdown
done >out
"$root/tests/train/accuracy.py" --bars >>out
check "docs/reference/models.md has these tables" python3 -c "
written = open('$root/docs/reference/models.md').read().splitlines()
missing = [line for line in open('out').read().splitlines() if line not in written]
assert not missing, missing"
wrong "a list of nothing" "schedules or codecs" -- models --kind weights
"$program" models --kind codecs --markdown >out
check "docs/guides/codecs.md has this table" python3 -c "
written = open('$root/docs/guides/codecs.md').read().splitlines()
missing = [line for line in open('out').read().splitlines() if line not in written]
assert not missing, missing"
wrong "an unknown codec" "no codec 'fp61'" "did you mean 'fp16'?" -- \
    train --model mlp --data fashion-mnist --codec fp61
fails "an unknown model" "no model 'nlp'" "did you mean 'mlp'?" -- models nlp
fails "a model for other data" "lstm needs a column 'tokens'" -- models lstm --columns 'image=float[3,3]'
wrong "a list of nothing" "schedules or codecs" -- models --kind weights
wrong "columns of nothing" "the name of a model" -- models --columns 'image=float[3,3]'

# ---- contrast (tests/train/contrast.py has what is trained)
wrong "contrast without a checkpoint" "--from is missing" -- contrast --model triplet --data fashion-mnist
fails "pairs that are none" "siamese needs pairs of images (--pairs makes them from images)" -- \
    contrast --model siamese --data synthetic-text --from .
fails "pairs of what is no image" "pairs: the data has no column 'image'" -- \
    contrast --model siamese --data synthetic-text --pairs 'crop=2' --from .

# ---- ops, params
ok "ops" "MatMul" "gradient" " ops" -- ops
ok "signatures" "MatMul(a:T, b:T) -> (product:T)" -- ops MatMul --def
fails "an unknown op by name" "no op 'MatMull'" "did you mean MatMul?" -- ops MatMull
"$program" ops --json >out 2>err
check "ops as json" python3 -c "
import json
ops = json.load(open('out'))
assert len(ops) > 150 and [o['name'] for o in ops] == sorted(o['name'] for o in ops)
for o in ops:
    assert o['gradient'] in ('yes', 'none', 'missing') and o['def'].startswith('('), o
    assert isinstance(o['stateful'], bool) and isinstance(o['types'], list) and o['samples'] is not None, o
"
ok "params" "pool_spin_rounds" "4000" "default" -- params
ok "params from the command line" "command line" -- params --param pool_spin_rounds=1
MESHFLOW_POOL_SPIN_ROUNDS=3 "$program" params --json >out 2>err
check "params from the environment" python3 -c "
import json
[p] = [p for p in json.load(open('out')) if p['name'] == 'pool_spin_rounds']
assert p['value'] == 3 and p['default'] == 4000 and p['source'] == 'environment', p
"
cat >large.pbtxt <<'GRAPH'
node { name: "n" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
       attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 2 } }
                                            int_val: 2 int_val: 1000000 } } } }
node { name: "v" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "large" op: "Fill" input: "n" input: "v" attr { key: "T" value { type: DT_FLOAT } } }
GRAPH
ok "large results are printed in part" "[[3. 3. 3. ... 3. 3. 3.]" -- graph run large.pbtxt --feed v=3 --fetch large
fails "the memory limit holds" "OOM" -- graph run large.pbtxt --feed v=3 --fetch large --param buffer_limit_mib=4

# ---- output that does not arrive
{ "$program" ops; echo $? >code; } 2>err | head -n 1 >out
check "a reader that leaves early is no failure" test "$(cat code)" = 0 -a ! -s err
"$program" ops >/dev/full 2>err
code=1 got=$?
: >out
verdict "a full disk is a failure" "meshflow: cannot write the output: No space"
"$program" ops >&- 2>err
code=1 got=$?
verdict "a closed output is a failure" "meshflow: cannot write the output"
"$program" ops >out 2>&-
check "closed error output does no harm" test -s out

. "$root/tests/cli/data.sh"
. "$root/tests/cli/ckpt.sh"
. "$root/tests/cli/compress.sh"
. "$root/tests/cli/own_data.sh"
. "$root/tests/cli/cluster.sh"
. "$root/tests/cli/cert.sh"
. "$root/tests/cli/server.sh"

echo "$((n - failed)) passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
