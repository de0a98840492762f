#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: run.sh BUILD_DIR      the mesh against JAX and Mesh TensorFlow (compare.py)
#
# Prints TAP lines and, last, its counts. A peer that cannot be installed is skipped.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
MESHFLOW_LIB=$(readlink -f "$1")/libmeshflow.so.0
export MESHFLOW_LIB
passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

for peer in jax mtf; do
    if ! tools/make_peer_venv.sh "$peer" >"$log" 2>&1; then
        echo "ok - $peer # SKIP tools/make_peer_venv.sh $peer cannot install it from PyPI"
        skipped=$((skipped + 1))
        continue
    fi
    "build/venv-$peer/bin/python" tests/mesh/compare.py "$peer" 2>&1 | tee "$log"
    if [[ $(tail -n 1 "$log") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
        passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2]))
        skipped=$((skipped + BASH_REMATCH[3]))
    else
        echo "not ok - $peer ended without its counts"
        failed=$((failed + 1))
    fi
done
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
