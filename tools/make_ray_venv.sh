#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes build/venv-ray, a Python with Ray, one of the engines of `make engines`. Downloads from PyPI
# (100 MB) when it is not there yet; fails when that cannot be reached.
set -euo pipefail
cd "$(dirname "$0")/.."
version=2.60.0
venv=build/venv-ray
made=$venv/ray-$version

[ ! -e "$made" ] || exit 0
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
echo "installing ray $version into $venv"
"$venv/bin/python" -m pip install -q --disable-pip-version-check --no-cache-dir --retries 2 \
    --timeout 20 "ray==$version"
touch "$made" # only now: a half-made one is made again
