#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: machine.sh [--list] [--numerics CLASS] [--rounds N] [PART...]      default: all parts
#
# Benchmarks of training steps against PyTorch, in parts that take less than nine minutes each. Runs from an
# unpacked bundle, without other packages of ours; see docs/guides/install.md. Results: $OUT/PART.txt and
# $OUT/PART.json (default: results). TORCH_PYTHON: a Python with PyTorch. Exit status: 1 if a part failed.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-results}
limit=${PART_SECONDS:-540}
python=${TORCH_PYTHON:-python3}
failed=0 options=() wanted=()

# PART and what it runs; the order of `all`.
parts="mlp          train.py|steps mlp
cnn          train.py|steps fashion-cnn B=128
cnn-small    train.py|steps fashion-cnn B=8
cnn-32       train.py|steps fashion-cnn B=32
resnet20     train.py|steps resnet20
transformer  train.py|steps transformer
lstm         train.py|steps lstm
threads-mlp  threads.py|mlp
threads-cnn  threads.py|fashion-cnn"

die() { echo "machine.sh: $*" >&2; exit 2; }

run_part() # PART
{
    local call status begin=$SECONDS
    call=$(sed -n "s/^$1  *//p" <<<"$parts")
    echo "== $1"
    timeout "$limit" "$python" -u "$here/${call%%|*}" "${call#*|}" --json "$out/$1.json" "${options[@]}" 2>&1 |
        tee "$out/$1.txt"
    status=${PIPESTATUS[0]}
    [ "$status" != 124 ] || echo "machine.sh: $1 was ended after $limit s" | tee -a "$out/$1.txt"
    echo "== $1: status $status, $((SECONDS - begin)) s"
    [ "$status" = 0 ] || failed=1
}

while [ $# -gt 0 ]; do
    case $1 in
        --list) awk '{ print $1 }' <<<"$parts"; exit ;;
        --numerics | --rounds) [ $# -gt 1 ] || die "$1 needs a value"; options+=("$1" "$2"); shift ;;
        -*) die "unknown option $1" ;;
        *) grep -q "^$1 " <<<"$parts" || die "no part is named '$1': --list lists them"; wanted+=("$1") ;;
    esac
    shift
done
command -v "$python" >/dev/null || die "$python is not installed; TORCH_PYTHON names a Python"
[ ${#wanted[@]} -gt 0 ] || mapfile -t wanted < <(awk '{ print $1 }' <<<"$parts")
mkdir -p "$out"
for part in "${wanted[@]}"; do
    run_part "$part"
done
exit $failed
