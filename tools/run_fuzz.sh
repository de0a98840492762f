#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: [FUZZ_SECONDS=60] [T=pattern] run_fuzz.sh
#
# Fuzzes each target of build/fuzz in turn. New inputs are stored in build/fuzz/corpus/<target>, crashing
# ones in build/fuzz/crashes/; review them and copy useful ones to fuzz/corpus/.
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/sanitizer_env.sh
seconds=${FUZZ_SECONDS:-60}
failed=0

for source in fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    [ -e "$source" ] && [[ $name == *${T:-}* ]] || continue
    new=build/fuzz/corpus/$name
    mkdir -p "$new" build/fuzz/crashes
    dictionary=()
    [ ! -e "fuzz/$name.dict" ] || dictionary=(-dict="fuzz/$name.dict")
    echo "# $name for $seconds s"
    sanitized "build/fuzz/fuzz/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
        -print_final_stats=1 -verbosity=0 -artifact_prefix="build/fuzz/crashes/$name-" \
        "${dictionary[@]}" "$new" $([ ! -d "fuzz/corpus/$name" ] || echo "fuzz/corpus/$name") ||
        failed=$((failed + 1))
done
[ "$failed" = 0 ] || echo "$failed targets failed: see build/fuzz/crashes/"
[ "$failed" = 0 ]
