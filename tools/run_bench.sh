#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: run_bench.sh [PATTERN]      benchmarks of build/release whose name contains it
set -euo pipefail
cd "$(dirname "$0")/.."
printf '# %s, %s cores\n' "$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)"
for source in bench/*.c; do
    name=$(basename "$source" .c)
    [ -e "$source" ] && [[ $name == *${1:-}* ]] || continue
    echo "# $name"
    "build/release/bench/$name"
done
