#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Creates build/venv, a Python with TensorFlow and TensorBoard, the oracle of the tests in tests/tf.
# Downloads from PyPI (about 300 MB) unless it exists; fails if PyPI cannot be reached.
set -euo pipefail
cd "$(dirname "$0")/.."
version=2.21.0
venv=build/venv
made=$venv/tensorflow-and-tensorboard-$version

[ ! -e "$made" ] || exit 0
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
echo "installing tensorflow-cpu and tensorboard $version into $venv"
"$venv/bin/python" -m pip install -q --disable-pip-version-check --retries 2 --timeout 20 \
    "tensorflow-cpu==$version" "tensorboard==$version"
touch "$made" # last, so that an incomplete one is created again
