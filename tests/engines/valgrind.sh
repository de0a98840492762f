#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: valgrind.sh BUILD_DIR      examples/standalone.c, a cluster in one process, under valgrind
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
. tests/engines/lib.sh
trap 'rm -rf "$work"' EXIT
build=$(cd "$1" && pwd)

${CC:-cc} -O1 -g -Iinclude examples/standalone.c -o "$work/standalone" -L"$build" -lmeshflow \
    -Wl,-rpath,"$build" >"$work/log" 2>&1
verdict "the standalone cluster is built" $?
"$work/standalone" >"$work/log" 2>&1
verdict "the standalone cluster runs" $? 4
name="valgrind finds nothing wrong with its memory"
if command -v valgrind >/dev/null; then
    valgrind --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite,indirect \
        "$work/standalone" >"$work/log" 2>&1
    verdict "$name" $? "ERROR SUMMARY: 0 errors"
else
    skip "$name" "package valgrind is not installed"
fi
name="it makes no socket"
if command -v strace >/dev/null; then
    strace -f -qq -e trace=socket,socketpair,bind,listen -o "$work/calls" "$work/standalone" >"$work/log" 2>&1
    status=$?
    cat "$work/calls" >>"$work/log"
    ! grep -q '(' "$work/calls" || status=1
    verdict "$name" "$status"
else
    skip "$name" "package strace is not installed"
fi
finish
