#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes build/venv-torch, a Python with PyTorch, a peer of `make bench`. Downloads from PyPI (5 GB)
# when it is not there yet; fails when that cannot be reached.
set -euo pipefail
cd "$(dirname "$0")/.."
version=2.15.0
venv=build/venv-torch
made=$venv/torch-$version

[ ! -e "$made" ] || exit 0
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
echo "installing torch $version into $venv"
"$venv/bin/python" -m pip install -q --disable-pip-version-check --no-cache-dir --retries 2 \
    --timeout 20 "torch==$version" numpy
touch "$made" # only now: a half-made one is made again
