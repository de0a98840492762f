# SPDX-License-Identifier: Apache-2.0
#
# Part of run.sh: what training shows and leaves behind, and the commands about checkpoints.

train() # ARGUMENT...: a small model for wide tables; what it says goes to out and err
{
    # shellcheck disable=SC2086
    "$program" train --model wide-deep --data synthetic-ctr --set count=2000 --batch 100 --optimizer adam \
        --threads 2 "$@" >out 2>err </dev/null
    got=$? code=0
}

# ---- training
train --epochs 2 --validation 0.2 --out ctr
verdict "train shows epochs, a table and the curve" "epoch 1/2  0:0" "| validation loss" "model       wide-deep: " \
    "data        synthetic-ctr: 1,600 samples, 400 for validation" "steps       32, with 100 samples each, 2 epochs" \
    "test        loss" "checkpoint  ctr/model.ckpt-32" "curve       ctr/curve.svg, ctr/curve.csv" "step"
check "outside a terminal there are no control characters" sh -c "! cat out err | tr -d '\n' | grep -q '[[:cntrl:]]'"
check "the curve as a table" python3 -c "
import csv
rows = list(csv.DictReader(open('ctr/curve.csv')))
train = [r for r in rows if r['part'] == 'training']
assert sum(int(r['steps']) for r in train) == 32 and train[-1]['step'] == '32', rows
assert [r['step'] for r in rows if r['part'] == 'validation'] == ['16', '32'], rows
assert [r['step'] for r in rows if r['part'] == 'test'] == ['32'], rows
assert all(float(r['loss']) > 0 for r in rows), rows
"
check "the curve as a picture" python3 -c "
import xml.dom.minidom
svg = xml.dom.minidom.parse('ctr/curve.svg').documentElement
assert svg.tagName == 'svg' and len(svg.getElementsByTagName('circle')) >= 4
assert 'wide-deep on synthetic-ctr' in svg.toxml() and 'http' not in svg.toxml().replace('http://www.w3.org/2000/svg', '')
"
cp ctr/curve.csv before.csv
train --epochs 3 --validation 0.2 --out ctr --resume --quiet
verdict "train --quiet"
check "--quiet leaves both streams empty" test ! -s out -a ! -s err
check "a resumed training continues its curve" python3 -c "
rows = [l for l in open('ctr/curve.csv') if l.startswith(('training', 'validation'))]
before = [l for l in open('before.csv') if l.startswith(('training', 'validation'))]
assert [r for r in rows if int(r.split(',')[1]) <= 32] == before and rows[-1].startswith('validation,48'), rows
"
LC_ALL=C train --steps 8 --no-test
verdict "without UTF-8 the curve is drawn with letters" ". training" "steps       8, with 100 samples each, 0.4 epochs"
check "without UTF-8 the output is ASCII" sh -c "! grep -q '[^ -~]' out"
train --steps 8 --json
verdict "with --json the table goes to standard error"
check "--json writes one line to standard output" sh -c "test \$(wc -l <out) = 1 && grep -q 'model  ' err"
check "--json writes json" json "d['steps'] == 8 and d['loss'] > 0"
sha=$(sed 's/.*weights_sha256":"//; s/".*//' out)
train --steps 8 --json --hogwild
verdict "--hogwild changes nothing in one process and says so" "--hogwild has no effect" "$sha"
train --steps 8 --no-test --quiet --summary-steps 2 --out events
verdict "events every other step"
ok "event files have an event for every other step" '"tag":"loss","kind":"scalar","events":4' -- events events --json
wrong "events without a folder" "--summary-steps needs --out" -- train --model mlp --data fashion-mnist --summary-steps 5
wrong "events never" "--summary-steps" -- train --model mlp --data fashion-mnist --summary-steps 0 --out events
cat >terminal.py <<'PYTHON'
import fcntl, os, pty, struct, sys, termios
pid, fd = pty.fork()
if pid == 0:
    os.environ.update(TERM="xterm")
    os.execv(sys.argv[1], sys.argv[1:])
fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 90, 0, 0))
text = b""
while True:
    try:
        more = os.read(fd, 65536)
    except OSError:
        break
    if not more:
        break
    text += more
assert os.waitpid(pid, 0)[1] == 0, text
bars = [b for b in text.decode().split("\033[K\r") if "samples/s" in b and "\n" not in b]
assert bars and all(len(b) <= 90 and "loss" in b and "left" in b and b.startswith("epoch ") for b in bars), text
shown = text.decode().split("\033[K")[-1]
assert "model " in shown and "\033" not in shown, shown
PYTHON
check "a bar on a terminal" python3 terminal.py "$program" train --model mlp --data fashion-mnist --steps 1500 --no-test

# ---- ckpt
ok "ckpt show" "ctr/model.ckpt-48: bundle, " "global_step" "training state" "_meshflow/shards" " 8" -- ckpt show ctr
ok "ckpt show as json" -- ckpt show ctr/model.ckpt-32 --json
check "the json of ckpt show" json "d['format'] == 'bundle' and
    [t for t in d['tensors'] if t['name'] == 'global_step'][0]['max'] == 32 and
    all(t['bytes'] > 0 and t['nan'] == 0 for t in d['tensors'])"
ok "ckpt show of values" "global_step int64[]" "48" -- ckpt show ctr --values global_step
ok "ckpt show of one of the files" "model.ckpt-32" -- ckpt show ctr/model.ckpt-32.index
fails "a tensor that is not there" "no tensor 'w'" "hint: meshflow ckpt show" -- ckpt show ctr --values w
fails "a checkpoint that is not there" "none.index" "hint: name a folder" -- ckpt show none
mkdir bare
fails "a folder without checkpoints" "no checkpoint in bare" -- ckpt show bare
ok "ckpt verify" "ctr/model.ckpt-32:" "ok: " -- ckpt verify ctr
fails "ckpt verify without a checkpoint" "none.index" -- ckpt verify none
ok "ckpt convert" "tensors written to w.safetensors" -- ckpt convert ctr w.safetensors
ok "ckpt convert from safetensors to npz" -- ckpt convert w.safetensors w.npz
ok "ckpt convert from npz to a bundle" -- ckpt convert w.npz bare/w
ok "conversions keep all bits" "tensors are equal bit by bit" -- ckpt diff ctr bare/w
ok "ckpt convert of some" "1 tensors written" -- ckpt convert ctr some.npz --only global_step
fails "ckpt convert of no tensor" "no tensor matches" -- ckpt convert ctr some.npz --only nothing
fails "ckpt convert into a missing folder" "nowhere" -- ckpt convert ctr nowhere/x.safetensors
fails "ckpt diff" "only in the first" "ctr/model.ckpt-48 and some.npz differ" -- ckpt diff ctr some.npz
fails "ckpt diff of values" "global_step: 1 of 1 elements differ, by at most 16" -- ckpt diff ctr/model.ckpt-32 ctr
fails "ckpt diff as json" '"largest_difference":' -- ckpt diff ctr/model.ckpt-32 ctr --json
wrong "ckpt diff of one" "meshflow" -- ckpt diff ctr
ok "safetensors have no checksums" "no checksums" -- ckpt verify w.safetensors
ok "a damaged npz is found" -- ckpt verify w.npz
for f in ctr/model.ckpt-48.data-00000-of-00001 w.npz; do
    python3 -c "
import sys
data = bytearray(open('$f', 'rb').read())
data[len(data) // 2] ^= 1
open('$f', 'wb').write(data)"
done
fails "a damaged tensor is named" "damaged: tensor '" "Checksum does not match" "1 of 3 checkpoints are damaged" -- ckpt verify ctr
fails "a damaged archive too" "damaged: " -- ckpt verify w.npz
fails "verify as json" '"ok":false' '"tensor":"' -- ckpt verify ctr --json
fails "show of a damaged one" "hint: meshflow ckpt verify" -- ckpt show ctr
ctr="--model wide-deep --data synthetic-ctr --set count=2000"
# shellcheck disable=SC2086
ok "eval from a safetensors file" "accuracy" -- eval $ctr --from w.safetensors
# shellcheck disable=SC2086
ok "train from a safetensors file" -- train $ctr --steps 2 --init w.safetensors --quiet --no-test
