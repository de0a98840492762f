#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: run.sh BUILD_DIR
#
# The library inside of a C program with a locale, a floating-point environment, threads, signal
# handlers and children of its own: nothing may change the weights, and nothing of the program's may
# change. Then every mistake that a caller can make with a NULL.
set -uo pipefail
cd "$(dirname "$0")"
top=$(cd ../.. && pwd)
build=$(cd "$top" && cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LD_LIBRARY_PATH=$build LOCPATH=$work/locales
n=0 failed=0 skipped=0

check() # NAME COMMAND...
{
    local name=$1
    shift
    n=$((n + 1))
    if "$@" >"$work/log" 2>&1; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        tail -n 40 "$work/log" | sed 's/^/#   /'
        failed=$((failed + 1))
    fi
}

make_program() # OUTPUT SOURCE COMPILER FLAGS...
{
    local out=$work/$1 source=$2
    shift 2
    "$@" -Wall -Wextra -Werror -g -O1 -I "$top/include" "$source" -o "$out" -L "$build" -lmeshflow -pthread -lm
}

make_locale() { mkdir -p "$LOCPATH" && localedef -i de_DE -f UTF-8 "$LOCPATH/de_DE.UTF-8"; }

weights_of() { sed -n 's/^\(\[worker [0-9]*\] \)\?weights //p' "$1"; }

# The same weights as those of a process that has set nothing.
same() # COMMAND...
{
    local got
    timeout 120 "$@" >"$work/out" || return 1
    got=$(weights_of "$work/out")
    [ -n "$got" ] && [ "$got" = "$plain" ] || { echo "weights $got, expected $plain"; return 1; }
}

find_plain() { LC_ALL=C "$work/program" plain >"$work/plain" && plain=$(weights_of "$work/plain") && [ ${#plain} = 64 ]; }

limited() { echo "ulimit -s $1; exec \"\$0\" \"\$@\""; } # KIB: what bash -c shall do

refused() { ! "$@" 2>"$work/said" && grep 'less than .* KiB of stack left' "$work/said"; } # COMMAND...

nothing_is_left_out() # every public function is in nulls.c
{
    local name missing=0
    for name in $(nm -D --defined-only "$build/libmeshflow.so" | awk '{ print $3 }'); do
        grep -q "\b$name(" nulls.c || { echo "$name() is not in nulls.c"; missing=1; }
    done
    return $missing
}

check "the programs compile as C" make_program program program.c gcc -std=gnu11
check "a program compiles with -ffast-math" make_program fast program.c gcc -std=gnu11 -ffast-math
check "the calls with NULL compile" make_program nulls nulls.c gcc -std=gnu11 -Wno-nonnull
check "a program that opens the library compiles" make_program unload unload.c gcc -std=gnu11 -Wl,--as-needed
check "MF_IN compiles with g++ as C++11" make_program cplusplus cplusplus.cc g++ -std=c++11 -Wpedantic
check "MF_IN compiles with clang as C++11" make_program cplusplus_clang cplusplus.cc clang++ -std=c++11 -Wpedantic
check "a comma-decimal locale can be made" make_locale
export LC_ALL=de_DE.UTF-8
check "a C++ program runs a graph" "$work/cplusplus"
check "a C++ program compiled by clang runs a graph" "$work/cplusplus_clang"
check "the weights of a plain process" find_plain
check "a comma-decimal locale changes no number" same "$work/program" comma
check "a comma-decimal locale of one thread changes no number" same "$work/program" comma_of_a_thread
check "flush-to-zero, upward rounding and traps change no weight, and stay" same "$work/program" strange
check "the caller may change them between runs" same "$work/program" strange_between_runs
check "a hook may change them" same "$work/program" hook_that_misbehaves
check "a program compiled with -ffast-math gets the same weights" same "$work/fast" plain
check "four threads train, each in an environment of its own" same "$work/program" threads
check "four threads predict with one trainer, also while it trains" same "$work/program" predictions
check "a thread with little stack gets an error, and a thread with 400 KiB trains" same "$work/program" small_stacks
check "threads of the library have stack enough where the default is small" same bash -c "$(limited 512)" "$work/program" plain
check "a main thread with little stack gets an error" refused bash -c "$(limited 256)" "$work/program" plain
check "signal handlers stay, and run in no thread of the library" same "$work/program" signals
check "every call in a forked child fails with FAILED_PRECONDITION" same "$work/program" forks
check "a child forked before the first call can train" same "$work/program" forks_first
check "two workers with all of that get the same weights" same "$build/meshflow" launch --workers 2 -- "$work/program" worker
check "model, strategy and data may be freed before the trainer that uses them" same "$work/program" freed_in_any_order
check "the library stays where it is after dlclose(), with a session that still has threads" "$work/unload" "$build/libmeshflow.so"
check "mistakes with graphs, models, labels and numbers are refused by name" same "$work/program" mistakes
check "every public function is called with NULL" nothing_is_left_out
check "no call with NULL crashes or succeeds" timeout 300 "$work/nulls"

echo "$((n - failed)) passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
