#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: lint.sh [FILE...]      clang-tidy and cppcheck on the sources (default: all)
#
# Reads build/asan/compile_commands.json, where clang is the compiler; plugins that are not built are
# not in it. Uninitialised variables are left to clang's analyser, which understands the status of
# failed calls; cppcheck does not.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || mapfile -t files < <(find src bench fuzz tests/unit tests/ops tests/runner \
    -name '*.c' 2>/dev/null | while read -r f; do
    [[ $f != src/plugins/* && $f != bench/mpi/* ]] || grep -qF "/$f\"" build/asan/compile_commands.json || continue
    echo "$f"
done)
[ $# -eq 0 ] || files=("$@")
status=0

printf '%s\0' "${files[@]}" |
    xargs -0 -P "$(nproc)" -n 4 clang-tidy -p build/asan --quiet --warnings-as-errors='*' \
        2> >(grep -vE '^[0-9]+ warnings? (generated|treated)|^Suppressed|^Use -' >&2) || status=1
if command -v cppcheck >/dev/null; then
    printf '%s\n' "${files[@]}" | grep '^src/' |
        cppcheck --file-list=- -j "$(nproc)" --quiet --std=c11 --error-exitcode=1 --inline-suppr \
            --enable=warning,portability --suppress=missingInclude --suppress=unknownMacro \
            --suppress=uninitvar --suppress=legacyUninitvar -I include -I src || status=1
fi
exit $status
