#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: format.sh [--check]      formats all C sources, or lists those that are not formatted
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(-i)
[ "${1:-}" != --check ] || mode=(--dry-run --Werror)
find . -path ./build -prune -o \( -name '*.c' -o -name '*.h' -o -name '*.cu' \) -print0 |
    xargs -0 -r -P "$(nproc)" -n 20 clang-format --style=file "${mode[@]}"
