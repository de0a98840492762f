# SPDX-License-Identifier: Apache-2.0
#
# Part of run.sh: one's own tables, records and pictures, from the training to the answers.

python3 - <<'PYTHON'
import os, random, struct, zlib

random.seed(5)

def table(name, header, rows, delimiter=","):
    with open(name, "w") as f:
        f.write(delimiter.join(header) + "\n")
        for row in rows:
            f.write(delimiter.join(map(str, row)) + "\n")

def points(n):
    return [[round(random.uniform(-1, 1), 4) for _ in range(3)] for _ in range(n)]

def says(p):
    return "yes" if p[0] + p[1] > 0 else "no"

names = ["a", "b", "c", "answer"]
rows = [p + [says(p)] for p in points(90)]
table("bare.csv", list(map(str, rows[0])), rows[1:])
table("twice.csv", ["a", "a", "c", "answer"], rows)
table("ecivt.csv", ["c", "a", "a", "answer"], [[r[2], r[0], r[1], r[3]] for r in rows])
table("semicolons.csv", names, rows, ";")
table("spaced.csv", names, rows, ", ")
with open("latin.csv", "w", encoding="latin-1") as f:
    f.write("a,answer\n" + "1,Z\xfcrich\n2,Bern\n" * 20)
table("own.csv", names, [p + [says(p)] for p in points(300)])
table("own.tsv", names, [p + [says(p)] for p in points(40)], "\t")
with open("lines.csv", "w") as f:
    f.write("a,answer\n" + '1,"two\nlines"\n2,one\n' * 20)
with open("sparse.svm", "w") as f:
    f.write("".join("%d 1:0.5 %d:2\n" % (i % 2, 2 + i % 5) for i in range(60)))
table("three.csv", names, [p + [i % 3] for i, p in enumerate(points(30))])
table("yes.csv", names, [p + [says(p)] for p in points(80) if says(p) == "yes"])
table("order.csv", ["answer", "c", "a", "b"], [[says(p), p[2], p[0], p[1]] for p in points(80)])
table("nolabel.csv", ["a", "b", "c"], points(4))
table("unfilled.csv", names, [p + [""] for p in points(4)])
table("maybe.csv", names, [p + ["maybe" if i == 3 else says(p)] for i, p in enumerate(points(6))])
table("lacks.csv", ["a", "c", "answer"], [[p[0], p[2], says(p)] for p in points(6)])
table("hole.csv", names, [(["" if i == 4 else p[0]]) + p[1:] + [says(p)] for i, p in enumerate(points(6))])
table("nan.csv", names, [p[:2] + ["NaN" if i == 2 else p[2]] + [says(p)] for i, p in enumerate(points(6))])
table("blank.csv", names, [p + ["" if i == 1 else says(p)] for i, p in enumerate(points(6))])
table("price.csv", ["a", "b", "c", "price"], [p + [round(0.5 + 0.3 * p[0] - 0.1 * p[1], 5)] for p in points(300)])
table("whole.csv", ["a", "b", "c", "price"], [p + [i % 2] for i, p in enumerate(points(8))])
table("mistake.csv", ["a", "price"], [[p[0], "n/a" if i == 7 else round(0.5 + p[0], 3)] for i, p in enumerate(points(60))])
table("degrees.csv", ["a", "price"], [[p[0], i - 30] for i, p in enumerate(points(60))])
table("huge.csv", ["a", "price"], [["1e30", 0.5]] * 40)
table("dollars.csv", ["a", "price"], [[i, 100000 + 317 * i] for i in range(50)])

def png(path, shade, side=8):
    raw = b"".join(b"\0" + bytes([(shade + x + y) % 256 for x in range(side)]) for y in range(side))
    part = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)) +
                part(b"IDAT", zlib.compress(raw)) + part(b"IEND", b""))

for i in range(12):
    for c, shade in ("bars", 20), ("circle", 120), ("dots", 220):
        png("shapes/train/%s/%d.png" % (c, i), shade + i)
    png("large/%d.png" % i, 20, 12)
    for c, shade in ("circle", 120), ("dots", 220):
        png("shapes/test/%s/%d.png" % (c, i), shade + i)
    png("flat/%02d.png" % i, 220 if i % 2 else 20)
png("strange/bars/0.png", 20)
png("strange/stars/0.png", 20)
PYTHON
own="--model mlp --set label=answer --lr 0.2 --batch 16 --quiet"
number() { python3 -c "import sys; d = {l.split()[0]: l.split()[1] for l in open('out')}; sys.exit(not ($1))"; }

# ---- classes are those of the training
# shellcheck disable=SC2086
ok "a table without a test trains" -- train $own --data own.csv --epochs 15 --out tables --json
check "a table without a test is tested on a tenth" json "d['samples'] == {'train': 270, 'validation': 0, 'test': 30} and \
d['test_data'] == '10 % of own.csv, drawn by sample id and seed 0' and d['accuracy'] > 0.9"
check "model.json has the settings, the loss and the metrics" python3 -c "
import json
d = json.load(open('tables/model.json'))
assert d['set'] == 'label=answer' and d['loss'] == 'sparse_categorical_crossentropy' and d['metrics'] == 'accuracy', d
assert d['split'] == 0.1 and d['samples'] == 300 and d['format'] == 'csv', d
d = json.load(open('tables/schema.json'))
assert d['version'] == 1 and d['columns'][0]['fields'] == ['a', 'b', 'c'], d
assert d['columns'][1]['classes'] == ['no', 'yes'] and d['columns'][1]['role'] == 'label', d"
ok "eval without --data and --test" "30 of 10 % of own.csv" -- eval --from tables
check "eval without --data and --test has the accuracy of the test" number "float(d['accuracy']) > 0.9"
ok "eval on a table without one of the classes" "of yes.csv" -- eval --from tables --test yes.csv
check "eval numbers classes as the training did" number "float(d['accuracy']) > 0.9"
ok "eval on a table whose columns stand in another order" -- eval --from tables --test order.csv
check "eval finds columns by name" number "float(d['accuracy']) > 0.9"
ok "eval on a table with tabs" "40 of own.tsv" -- eval --from tables --test own.tsv
ok "a delimiter written as backslash t" "40 samples" -- data show csv:own.tsv --set 'delimiter=\t label=answer'
ok "eval as json" '"test":80' '"test_data":"order.csv"' -- eval --from tables --test order.csv --json
fails "a class that the model does not know" "'maybe.csv', line 5: the model does not know the class 'maybe'; it knows no, yes" -- \
    eval --from tables --test maybe.csv
fails "a table without one of the columns" "'lacks.csv' has no column 'b', which the model was trained on" -- \
    eval --from tables --test lacks.csv
fails "a table with another column" "'price.csv' has a column 'price', which the model was not trained on" -- \
    predict --from tables --test price.csv
ok "eval of the training data is asked for, and said" "own.csv, which is the training data itself" -- \
    eval --from tables --test own.csv
cp own.csv was.csv
sed -n '2,5p' yes.csv >>own.csv
fails "a table that has grown since" "'own.csv' had 300 samples when the model was trained and has 304 now" "give --test" -- \
    eval --from tables
mv was.csv own.csv

# ---- tables as others write them
wrong "a table without a header" "'bare.csv': the first row has numbers" "set header=false" -- \
    train --model mlp --data bare.csv --set label=-1
ok "the first row of a table without a header is a sample" "90 samples" -- data show bare.csv --set 'label=-1 header=false'
wrong "a table without a header, by the name of its label" "if the first row is not a header, set header=false" -- \
    train --model mlp --data bare.csv --set label=answer
wrong "semicolons" "if ';' separates its columns, set delimiter=;" -- train --model mlp --data semicolons.csv --set label=answer
wrong "a table in Latin-1" "'latin.csv', line 2: this is not UTF-8" -- train --model mlp --data latin.csv --set label=answer
ok "spaces behind commas" "2 classes" "yes" -- data show spaced.csv --set label=answer
# shellcheck disable=SC2086
ok "two columns of one name" -- train $own --data twice.csv --epochs 15 --out twice
ok "eval of them in their order" -- eval --from twice --test twice.csv
cp out in_order
ok "eval of them in another order" -- eval --from twice --test ecivt.csv
check "eval finds columns of the same name by their order" test "$(head -2 out)" = "$(head -2 in_order)"

# ---- weights of another training
# shellcheck disable=SC2086
"$program" train $own --data own.csv --steps 1 --init tables >out 2>err
check "--init of the same model says nothing" test ! -s err
"$program" train --model 'mlp units=[9]' --data own.csv --set label=answer --steps 1 --quiet --init tables >out 2>err
check "--init of another model says how much of it is used" grep -q "has 1 of the model's 4 weights" err

# ---- columns that a model does not read
"$program" train --model wide-deep --data sparse.svm --steps 3 >out 2>err
check "a column that the model does not use is named" grep -q '^not used    values$' out err

# ---- predict
"$program" train --model mlp --data lines.csv --set label=answer --steps 3 --out lines >out 2>err
check "a class of two lines takes one line" grep -qF 'classes: one, two\nlines' out err
ok "data show prints a class of two lines in one line" "two\\nlines           20" -- data show lines.csv --set label=answer
ok "predict with a class of two lines" -- predict --from lines --test lines.csv
check "predict prints a class of two lines in one line" test "$(wc -l <out)" = 40
ok "predict without labels" "3 " -- predict --from tables --test nolabel.csv
check "predict prints one line for each sample" test "$(grep -c . out)" = 4
ok "predict where the column of the label is empty" "3 " -- predict --from tables --test unfilled.csv
ok "predict where it has other classes" "5 " -- predict --from tables --test maybe.csv
ok "predict as json" -- predict --from tables --test nolabel.csv --json
check "predict --json prints json" json "len(d['predictions']) == 4 and d['predictions'][0]['name'] in ('no', 'yes') and \
len(d['predictions'][0]['scores']) == 2"
ok "predict with label=none" "3 " -- predict --from tables --test nolabel.csv --set label=none
fails "eval needs labels" "'nolabel.csv' has no column 'answer'" -- eval --from tables --test nolabel.csv

# ---- which samples test
# shellcheck disable=SC2086
ok "validation and test share no sample" -- train $own --data own.csv --epochs 2 --validation 0.2 --json
check "training, validation and test share no sample" json "d['samples'] == {'train': 216, 'validation': 54, 'test': 30} and \
d['validation']['accuracy'] > 0"
# shellcheck disable=SC2086
ok "the validation at the end is that of the last step" -- train $own --data own.csv --steps 20 --validation 0.2 --out lasts --json
check "the last step is validated although no epoch ends there" python3 -c "
import csv, json
d = json.loads(open('out').read().splitlines()[-1])
row = [r for r in csv.DictReader(open('lasts/curve.csv')) if r['part'] == 'validation'][-1]
assert row['step'] == '20' and abs(float(row['accuracy']) - d['validation']['accuracy']) < 1e-6, (row, d)"
# shellcheck disable=SC2086
ok "--no-test leaves all samples to the training" -- train $own --data own.csv --steps 3 --no-test --out all --json
check "--no-test trains on all samples" json "d['samples'] == {'train': 300, 'validation': 0, 'test': 0}"
wrong "whose model has nothing left to be tested on" "trained on all samples of 'own.csv' (--no-test); give --test" -- \
    eval --from all
ok "eval --test of a model trained with --no-test" "accuracy" -- eval --from all --test yes.csv
ok "a set with a test part opens that for --test" "10000 of the test part of fashion-mnist" -- \
    eval --from big --test fashion-mnist
ok "eval without --test uses the test part" "10000 of the test part of fashion-mnist" -- eval --from big
# shellcheck disable=SC2086
ok "a split is the same after --resume" -- train $own --data own.csv --epochs 16 --out tables --resume --json
check "a resumed training has the same test samples" json "d['samples']['test'] == 30 and d['accuracy'] > 0.9"

# ---- numbers to predict
ok "labels with a decimal point are numbers" -- train --model mlp --data price.csv --set label=price --lr 0.1 \
    --epochs 20 --quiet --out prices --json
check "labels with a decimal point are trained as numbers" json "0 < d['test_loss'] < 0.01 and 0 < d['mean_absolute_error'] < 0.1 and 'accuracy' not in d"
ok "eval of a regression" "mean_absolute_error" "30 of 10 %" -- eval --from prices
ok "eval where all numbers are whole" "loss" "8 of whole.csv" -- eval --from prices --test whole.csv
ok "predict of a regression" -- predict --from prices --test nolabel.csv --json
check "predict of a regression prints one number for each sample" json "all(len(p['values']) == 1 for p in d['predictions'])"
wrong "a number with a mistake makes no classes of the others" "'mistake.csv', line 9: the label is not a number: 'n/a'" -- \
    train --model mlp --data mistake.csv --set label=price
wrong "negative whole numbers that are no classes" "60 samples are 60 different numbers: set target=number" -- \
    train --model mlp --data degrees.csv --set label=price
wrong "a loss of classes for numbers" "the output has one score, but two classes are needed" -- \
    train --model mlp --data price.csv --set label=price --loss categorical_crossentropy --steps 1
wrong "whole numbers that are no classes" "set target=number" -- train --model mlp --data dollars.csv --set label=price
ok "whole numbers with target=number" -- train --model mlp --data dollars.csv --set 'label=price target=number' \
    --steps 1 --lr 1e-9 --quiet --json
ok "another loss for numbers" -- train --model mlp --data price.csv --set label=price --loss huber --steps 3 --quiet --out huber
check "model.json names the loss" grep -q '"loss": "huber"' huber/model.json

# ---- what is missing is said with its place
wrong "an empty cell" "'hole.csv', line 6, column 1 ('a'): the cell is empty; set missing=0" -- \
    train --model mlp --data hole.csv --set label=answer
wrong "a cell that is NaN" "'nan.csv', line 4, column 3 ('c'): the number is missing: NaN" -- \
    train --model mlp --data nan.csv --set label=answer
wrong "a label that is missing" "'blank.csv', line 3: the label is missing" -- \
    train --model mlp --data blank.csv --set label=answer
ok "a number for missing cells" -- train --model mlp --data hole.csv --set 'label=answer missing=0' --no-test --steps 1 --quiet --json
ok "a NaN that is asked for" -- data convert nan.csv nan.tfrecord --set 'label=answer missing=nan'
wrong "stops the training with its place" "sample 2 of the data has nan in column 'x', element 2" -- \
    train --model mlp --data nan.tfrecord --set classes=2 --no-test --epochs 1

wrong "a training that diverges" "so training diverges: a smaller learning rate" -- \
    train --model mlp --data huge.csv --set label=price --quiet

# ---- records
ok "records of a table" -- data convert own.csv own.tfrecord --set label=answer
wrong "records do not say how many classes there are" "--set classes=N" -- train --model mlp --data own.tfrecord
ok "records train" -- train --model mlp --data own.tfrecord --set classes=2 --lr 0.2 --epochs 15 --quiet --out recs --json
check "records are tested on a tenth" json "d['samples']['test'] == 30 and d['accuracy'] > 0.9"
ok "eval of records" "30 of 10 % of own.tfrecord" -- eval --from recs
ok "records without labels" -- data convert nolabel.csv nolabel.tfrecord
ok "predict of records without labels" "3 " -- predict --from recs --test nolabel.tfrecord
ok "records of three classes" -- data convert three.csv three.tfrecord --set label=answer
wrong "a label beyond classes=" "three.tfrecord', record" "the label is 2, but with classes=2 the classes are 0 to 1" -- \
    train --model mlp --data three.tfrecord --set classes=2 --no-test
ok "records of numbers" -- data convert price.csv price.tfrecord --set label=price
wrong "fractions that are said to be classes" "price.tfrecord', record" "with classes=2 the classes are 0 to 1" -- \
    train --model mlp --data price.tfrecord --set classes=2 --no-test
wrong "one class only" "mlp needs at least two classes, but the labels have one" -- \
    train --model mlp --data yes.csv --set label=answer

# ---- pictures
ok "pictures in folders" -- train --model mlp --data shapes --epochs 30 --batch 8 --lr 0.05 --quiet --out pics --json
check "a class without test samples moves no other one" json "d['samples'] == {'train': 36, 'validation': 0, 'test': 24} and \
d['test_data'] == 'the test part of shapes' and d['accuracy'] > 0.9"
ok "eval on pictures" "24 of the test part of shapes" -- eval --from pics
fails "a folder that is no class" "'strange/stars': the model does not know the class 'stars'; it knows bars, circle, dots" -- \
    eval --from pics --test strange
ok "predict of pictures without folders" -- predict --from pics --test flat --json
check "predict of pictures prints the file of each" json "len(d['predictions']) == 12 and d['predictions'][0]['file'] == 'flat/00.png' and \
d['predictions'][1]['name'] == 'dots'"
fails "pictures of another size" "'large/0.png' is 12 x 12, the model was trained on 8 x 8: set size=[8,8]" -- \
    predict --from pics --test large
ok "pictures of another size with --set size" -- predict --from pics --test large --set 'size=[8,8]'
cp -r shapes/train broken && head -c 60 shapes/train/dots/0.png >broken/dots/0.png
wrong "a picture that is cut" "'broken/dots/0.png': damaged PNG file: the file is truncated" -- \
    train --model mlp --data broken --no-test --batch 36 --quiet
wrong "pictures without classes" "the model needs a column 'label'" -- train --model mlp --data flat --steps 1 --batch 8
cp -r shapes/train shapes/val
ok "eval of another part of the training data" "36 of shapes, part=val" -- eval --from pics --test shapes --set part=val
rm -r shapes/val
fails "a part that is not there" "'shapes' has no folder 'holdout'" -- eval --from pics --set part=holdout

# ---- serve reads the same notes
rm -rf bare && mkdir bare && cp tables/model.json bare/
fails "a model without its schema" "schema.json is not beside model.json" -- eval --from bare
fails "serving a place that is not there" "there is no checkpoint or folder 'nowhere'" "hint" -- serve nowhere

# ---- numbers are checked
for option in "--validation 2" "--validation -1" "--lr -1" "--lr 0" "--lr nan" "--batch 0" "--ema 1" "--ema -1" "--weight-decay -1" \
    "--epochs 0" "--steps 0" "--timeout 0" "--timeout -3" "--converged-after 0" "--keep 0" "--save-steps 0" "--shards 0" \
    "--threads -1" "--seed -1" "--micro-batches 0" "--input-threads -1" "--check-steps -1" "--summary-steps 0" "--priority 11" \
    "--batch 9x"; do
    # shellcheck disable=SC2086
    wrong "train $option" "${option% *} expects a" "not '${option#* }'" -- train --model mlp --data own.csv --set label=answer --out numbers $option
done
wrong "a batch of more than there is" "--batch 271 is more than the 270 samples to train on" -- \
    train --model mlp --data own.csv --set label=answer --batch 271
check "a refused training writes nothing" test ! -e numbers
wrong "compress --lr" "--lr expects a number" -- compress tables --quantize int8 --lr -1
wrong "a lease of a millisecond" "lease_ms" "at least 100" -- params --param lease_ms=1

# ---- what was meant
wrong "an abbreviation of a setting" "adam has no setting 'lr'; did you mean 'learning_rate'?" -- \
    train --model mlp --data own.csv --set label=answer --optimizer 'adam lr=0.1'
wrong "a setting that is like none" "sgd has no setting 'zzzzzz'; it has learning_rate" -- \
    train --model mlp --data own.csv --set label=answer --optimizer 'sgd zzzzzz=1'
wrong "a setting of the model as an option" "--model 'mlp units=...'" -- train --model mlp --data own.csv --units 64
wrong "a setting of the optimizer as an option" "--optimizer 'adam beta_1=...'" -- train --model mlp --data own.csv --beta_1 0.9
wrong "a setting of the data as an option" "--set 'label=...'" -- train --model mlp --data own.csv --label answer
wrong "a model for other labels" "mlp needs one class for each sample" "label int32[64]" -- train --model mlp --data synthetic-language
wrong "a loss for other labels" "the data has labels of shape" "another model or another loss" -- \
    train --model mlp --data own.csv --set label=answer --loss categorical_crossentropy
fails "a format that there is not" "unknown format '.onnx'; known are .npz, .safetensors and .mfz" -- ckpt convert tables tables.onnx
check "an unknown format leaves no file" test ! -e tables.onnx.index
mkdir copy
ok "a prefix that is one" "tensors written" -- ckpt convert tables copy/model.ckpt
