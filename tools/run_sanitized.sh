#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: run_sanitized.sh PRESET [PATTERN...]      unit tests of build/PRESET
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/sanitizer_env.sh
preset=$1
shift

# No matching test is not a failure: patterns of `make tsan` may name tests that are not written yet.
if [ $# -gt 0 ] && [ -z "$("build/$preset/meshflow-tests" --list "$@")" ]; then
    echo "# $preset: no test matches $*"
    echo "0 passed, 0 failed, 0 skipped"
    exit
fi
sanitized "build/$preset/meshflow-tests" "$@"
