#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: run_tf_tests.sh [ARG...]      tests/tf/run.py ARG... in build/venv
#        run_tf_tests.sh --own-data    tests/train/own_data.py there
#
# The tests find the program in $MESHFLOW. Without TensorFlow they are skipped, with a message.
set -uo pipefail
cd "$(dirname "$0")/.."
if [ ! -e tests/tf/run.py ]; then
    echo "# no tests/tf/run.py"
    echo "0 passed, 0 failed, 0 skipped"
    exit
fi
if ! tools/make_venv.sh; then
    if [ "${CI:-}" = true ]; then
        echo "not ok 1 - tests/tf: TensorFlow could not be installed from PyPI"
        echo "0 passed, 1 failed, 0 skipped"
        exit 1
    fi
    echo "ok 1 - tests/tf # SKIP all of tests/tf: TensorFlow could not be installed from PyPI"
    echo "0 passed, 0 failed, 1 skipped"
    exit
fi
export MESHFLOW=$PWD/build/release/meshflow
export TF_CPP_MIN_LOG_LEVEL=3 TF_ENABLE_ONEDNN_OPTS=0 CUDA_VISIBLE_DEVICES=
if [ "${1:-}" = --own-data ]; then
    exec build/venv/bin/python tests/train/own_data.py "$MESHFLOW" "${@:2}"
fi
exec build/venv/bin/python tests/tf/run.py "$@"
