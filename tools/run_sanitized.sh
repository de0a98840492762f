#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: run_sanitized.sh PRESET [PATTERN...]      unit tests of build/PRESET
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/sanitizer_env.sh
preset=$1
shift

# Nothing to run is no failure here: the patterns of `make tsan` name what may not be written yet.
if [ $# -gt 0 ] && [ -z "$("build/$preset/meshflow-tests" --list "$@")" ]; then
    echo "# $preset: no test matches $*"
    echo "0 passed, 0 failed, 0 skipped"
    exit
fi
sanitized "build/$preset/meshflow-tests" "$@"
