# SPDX-License-Identifier: Apache-2.0
#
# Part of run.sh: data sets and ledgers.

ok "data list" "fashion-mnist" "tfrecord" "part: string in" -- data list
ok "data list as json" '"by_name":true' -- data list --json
ok "data show" "60000 samples" "image        uint8 [28,28,1]" "9 Ankle boot" "██" "label: 9 (Ankle boot)" \
    -- data show fashion-mnist
ok "data show another part" "10000 samples" "label: 2 (Pullover)" -- data show fashion-mnist --set part=test --sample 1
ok "data show as json" -- data show fashion-mnist --set part=test --json
check "data show as json: counts" json "d['count'] == 10000 and d['labels'] == [1000] * 10 and d['classes'] == 10"
ok "data show of letters" "tokens: it is false that the music was so bad" "label: 2 (positive)" -- data show synthetic-text
ok "data show of words" "tokens: the children sing . the old cats" -- data show synthetic-language
printf 'a,b,price\n1,2,3.5\n4,5,6\n' >table.csv
ok "data show of a table" "2 samples" "x            float [2]" "label: 6." \
    -- data show table.csv --set label=price --set target=number --sample 1
fails "data that is not there" "did you mean 'fashion-mnist'?" "hint: \`meshflow data list" -- data show fashion-mnits
fails "data without a known ending" "write it in front" -- data show err
fails "data in a wrong format" "no label" -- data show libsvm:table.csv
fails "a sample that is not there" "no sample 2" -- data show table.csv --set label=price --sample 2
fails "an unknown setting" "csv has no setting 'labels'; did you mean 'label'?" -- data show table.csv --set labels=x
wrong "data show without data" "meshflow" -- data show
ok "data convert" "2 samples written" -- data convert table.csv table.tfrecord --set 'label=price target=number' --compression GZIP
ok "converted data reads back" "2 samples" "x            float [2]" "[4. 5.]" "label: 6." -- data show table.tfrecord --sample 1
ok "pictures are converted" -- data convert fashion-mnist f.tfrecord --set part=test
ok "converted pictures keep their shape" "image        uint8 [28,28,1]" "label: 2" -- data show f.tfrecord --sample 1
wrong "an unknown compression" "GZIP or ZLIB" -- data convert table.csv x --compression LZ4
fails "a folder that cannot be written" "cannot" -- data convert table.csv /nowhere/x --set label=price

# Ledgers, written here from the description in docs/guides/data.md alone.
cat >ledger.py <<'PYTHON'
import struct, sys

def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82f63b78 * (crc & 1)
    return crc ^ 0xffffffff

def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff)

def record(data):
    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)

def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])

def entry(step, epoch, first, ids):
    out, before = b"".join(map(varint, [step, epoch, first, len(ids)])), 0
    for i in ids:
        d = i - before
        out, before = out + varint(2 * d if d >= 0 else -2 * d - 1), i
    return record(out)

header = record(b"MFLEDGER" + b"".join(map(varint, [1, 0, 6, 6, 9, 2, 4])) + b"toys")
good = [(1, 0, 0, [5, 0]), (2, 0, 2, [1, 4]), (3, 0, 4, [2, 3]), (4, 1, 0, [3, 1])]
bad = [(1, 0, 0, [5, 0]), (3, 0, 2, [1, 5]), (4, 1, 0, [2, 3])]
steps = b"".join(entry(*s) for s in (bad if sys.argv[2] == "bad" else good))
steps = steps[:-3] if sys.argv[2] == "torn" else steps
open(sys.argv[1] + "/samples.ledger", "wb").write(header + steps)
PYTHON
mkdir run
python3 ledger.py run good
ok "audit" "toys: 6 samples, seed 9, batches of 2" "steps 1 to 4: 8 samples used, 1 complete epochs and 2 of 6" "ok: each" -- audit run
python3 ledger.py run torn
ok "audit of a torn ledger" "is incomplete, as after a crash" "1 complete epochs" "ok: each" -- audit run
python3 ledger.py run bad
fails "audit finds what is wrong" "step 3 follows step 1" "step 3: sample 5 is used a second time" \
    "epoch 0: 3 samples are missing: 2, 3, 4" "not used exactly once: 3 problems" -- audit run
fails "audit as json" '"ok":false' "used a second time" -- audit run --json
printf 'x' | dd of=run/samples.ledger bs=1 seek=60 conv=notrunc 2>log
fails "audit of a damaged ledger" "the record at byte" -- audit run
fails "audit without a ledger" "nowhere/samples.ledger" -- audit nowhere
