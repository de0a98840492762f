# SPDX-License-Identifier: Apache-2.0
#
# Part of run.sh: compress, and who reads what it leaves.

"$program" train --model mlp --data fashion-mnist --batch 128 --steps 100 --optimizer momentum --no-test \
    --quiet --out big >out 2>err
got=$? code=0
verdict "train a model to compress"
ok "compress in every way, on the data it has learned from" "units removed: accuracy" "dense: kept 64 of 128 units" "low-rank kernels" \
    "quantized to int8" "pruned and fine-tuned" "shared values" "x smaller" "size, bytes" -- \
    compress big --prune "units share=0.5" --rank "rank=24 layers=dense" --quantize int8 \
    --prune "magnitude sparsity=0.8" --share bits=4 --no-speed --out small
check "a picture of sizes" python3 -c "
import xml.dom.minidom
svg = xml.dom.minidom.parse('small/sizes.svg').documentElement
assert svg.tagName == 'svg' and len(svg.getElementsByTagName('circle')) == 6
"
ok "eval finds the model in model.json" "accuracy" -- eval --data fashion-mnist --from small
cp out eval.small
ok "packed files are checkpoints" "packed" "dense/kernel_a" -- ckpt show small
ok "packed files are converted" "tensors written" -- ckpt convert small/model.mfz again.npz
ok "conversion of a packed file keeps all bits" "all 11 tensors are equal bit by bit" -- ckpt diff small/model.mfz again.npz
ok "a converted file is packed again" "tensors written" -- ckpt convert again.npz again.mfz
check "packing again gives the same file" cmp small/model.mfz again.mfz
model=$(python3 -c "import json; print(json.load(open('small/model.json'))['model'])")
ok "eval with the model's text" -- eval --model "$model" --data fashion-mnist --from again.npz
check "eval with the model's text prints the same" cmp out eval.small
ok "compress as json, with speeds" -- compress big --data fashion-mnist --quantize int8 --epochs 0 --json
check "int8 takes a fourth of the bytes and loses at most 1 % of accuracy" json \
    "d['before']['bytes'] > 3.9 * d['after']['bytes'] and d['after']['accuracy'] >= d['before']['accuracy'] - 0.01"
check "compress --json reports speed and stages" json "d['after']['step_seconds'] > 0 \
and d['after']['samples_per_second'] > 0 and d['stages'][0]['stage'] == 'before'"
ok "training continues from a packed file" -- train --model "$model" --data fashion-mnist --init small --steps 3 \
    --prune hold --no-test --quiet
wrong "compress what" "nothing to do: give --prune" -- compress big --data fashion-mnist
wrong "compress without data" "--data is missing" -- compress again.npz --model mlp --quantize int8
ok "eval finds the data in model.json" "accuracy" -- eval --from small
check "eval without --data prints the same" cmp out eval.small
wrong "pruning takes training" "leaves no time for it" -- compress big --data fashion-mnist --epochs 0 \
    --prune "magnitude sparsity=0.5"
wrong "a checkpoint of no known model" "there is no trained model at" -- compress "$work/nowhere" --data fashion-mnist \
    --quantize int8
fails "compress of a missing checkpoint" "nowhere" -- compress "$work/nowhere" --model mlp --data fashion-mnist --quantize int8
fails "an unknown pruning method" "there is no way of pruning 'smallest'" -- compress big --data fashion-mnist \
    --prune "smallest sparsity=0.5"
fails "pruning of an unknown layer" "no layer whose units can be removed is called 'conv'" -- compress big --data fashion-mnist \
    --prune "units share=0.5 layers=conv"
fails "an unknown quantization" "'int8', with settings, not 'int4'" -- compress big --data fashion-mnist --quantize int4
fails "too few values" "bits is 0, at least 1 is needed" -- compress big --data fashion-mnist --epochs 0 \
    --share bits=0
fails "too large a rank" "would not be smaller" -- compress big --data fashion-mnist --rank "rank=126 layers=dense" \
    --epochs 0
head -c 3000 small/model.mfz >small/cut.mfz
fails "a cut file" "cut.mfz: its checksum does not match" -- eval --data fashion-mnist --from small/cut.mfz
fails "verify finds it too" "cut.mfz" -- ckpt verify small/cut.mfz
