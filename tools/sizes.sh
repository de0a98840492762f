#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: sizes.sh [DIRECTORY...]      (src include tests)
#
# Prints lines by folder, the longest files and the longest functions. Marks with * files above 600
# lines (headers 200, ops 250) and functions above 60 lines (tests 40).
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- src include tests
mapfile -t files < <(find "$@" \( -name '*.c' -o -name '*.h' -o -name '*.cu' \) 2>/dev/null | sort)
[ ${#files[@]} -gt 0 ] || exit 0

echo "lines  files  folder"
wc -l "${files[@]}" | awk '$2 != "total" {
    n = split($2, part, "/"); folder = part[1] (n > 2 ? "/" part[2] : "")
    lines[folder] += $1; count[folder]++; all += $1; nfiles++ }
    END { for (f in lines) printf "%5d  %5d  %s\n", lines[f], count[f], f
          printf "%5d  %5d  (all)\n", all, nfiles }' | sort -k3

echo
echo "lines  file"
wc -l "${files[@]}" | awk '$2 != "total" {
    limit = $2 ~ /\.h$/ ? 200 : $2 ~ /^src\/ops\// ? 250 : 600
    printf "%5d%s %s\n", $1, ($1 > limit ? "*" : " "), $2 }' | sort -rn | sed -n 1,20p

# The body of a function is between a { and a } in the first column, after its declarator.
echo
echo "lines  function"
awk 'FNR == 1 { start = 0; head = "" }
    /^[A-Za-z_]/ && /\(/ && !/;[ \t]*$/ { head = $0 }
    /^{/ { start = FNR }
    /^}/ && start {
        name = head; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name)
        if (name ~ /^MF_.*TEST/) { name = head; sub(/^[^(]*\(/, "", name); sub(/[,)].*/, "", name) }
        n = FNR - start + 1
        printf "%5d%s %s  %s:%d\n", n, (n > (FILENAME ~ /^tests/ ? 40 : 60) ? "*" : " "), name,
            FILENAME, start
        start = 0
    }' "${files[@]}" | sort -rn | sed -n 1,20p
