#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: replay_fuzz.sh BUILD_DIR
#
# Runs every fuzz target fuzz/fuzz_x.c on its stored inputs, fuzz/corpus/fuzz_x/. A target without
# inputs fails, because it would test nothing.
set -uo pipefail
cd "$(dirname "$0")/.."
. tools/sanitizer_env.sh
n=0 failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

for source in fuzz/fuzz_*.c; do
    [ -e "$source" ] || continue
    name=$(basename "$source" .c)
    n=$((n + 1))
    if sanitized timeout 300 "$1/fuzz/$name" "fuzz/corpus/$name" >"$log" 2>&1; then
        echo "ok $n - $name: $(tail -n 1 "$log")"
    else
        echo "not ok $n - $name"
        tail -n 60 "$log" | sed 's/^/#   /'
        failed=$((failed + 1))
    fi
done
echo "$((n - failed)) passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
