#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: run.sh BUILD_DIR
#
# Installs into an empty directory, moves it, and uses it as a stranger would: by pkg-config, shared
# and static, and by the CMake package.
set -uo pipefail
cd "$(dirname "$0")"
build=$(cd ../.. && cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
at=$work/moved
n=0 failed=0

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

install_and_move() { cmake --install "$build" --prefix "$work/first" && mv "$work/first" "$at"; }

flags() { PKG_CONFIG_PATH=$(dirname "$(find "$at" -name meshflow.pc)") pkg-config "$@" meshflow; }

# shellcheck disable=SC2046
shared_by_pkg_config()
{
    gcc ../../examples/regression.c -o "$work/shared" $(flags --cflags --libs) &&
        readelf -d "$work/shared" | grep -F '[libmeshflow.so.0]' &&
        LD_LIBRARY_PATH=$at/lib "$work/shared"
}

# Compiles the example with the command in its comment; its loss must decrease.
# shellcheck disable=SC2046
five_steps()
{
    gcc -Wall -Wextra -Werror ../../examples/fashion.c -o "$work/fashion" $(flags --cflags --libs) &&
        LD_LIBRARY_PATH=$at/lib "$work/fashion" | tee "$work/told" &&
        grep -q '^test accuracy 0\.8[6-9]' "$work/told" &&
        [ "$(wc -l <../../examples/fashion.c)" -le 60 ]
}

# Alone, and with the workers of a cluster.
# shellcheck disable=SC2046
closures()
{
    gcc -Wall -Wextra -Werror ../../examples/closures.c -o "$work/closures" $(flags --cflags --libs) &&
        [ "$(LD_LIBRARY_PATH=$at/lib "$work/closures")" = "0^2 + ... + 99^2 = 328350" ] &&
        [ "$(LD_LIBRARY_PATH=$at/lib "$at/bin/meshflow" launch --masters 1 --workers 3 --json -- \
            "$work/closures")" = "0^2 + ... + 99^2 = 328350" ] &&
        [ "$(wc -l <../../examples/closures.c)" -le 60 ]
}

# shellcheck disable=SC2046
standalone()
{
    gcc -Wall -Wextra -Werror ../../examples/standalone.c -o "$work/standalone" $(flags --cflags --libs) &&
        [ "$(LD_LIBRARY_PATH=$at/lib "$work/standalone")" = 4 ]
}

# shellcheck disable=SC2046
static_by_pkg_config()
{
    gcc ../../examples/regression.c -o "$work/static" $(flags --cflags) \
        $(flags --static --libs | sed 's/-lmeshflow/-l:libmeshflow.a/') &&
        ! readelf -d "$work/static" | grep -F '[libmeshflow.so' &&
        "$work/static"
}

cmake_package()
{
    cmake -S . -B "$work/cmake" -G Ninja -DCMAKE_PREFIX_PATH="$at" -DCMAKE_C_COMPILER=gcc &&
        cmake --build "$work/cmake" && "$work/cmake/outside"
}

only_our_names() { ! nm -D --defined-only "$at/lib/libmeshflow.so.0" | grep -v ' mf_'; }

# Nothing is linked to Python, and a training finds no program at all.
no_python()
{
    ! ldd "$at/bin/meshflow" "$at/lib/libmeshflow.so.0" | grep -i python &&
        env -i PATH=/nowhere "$at/bin/meshflow" train --model wide-deep --data synthetic-ctr --set count=64 \
            --steps 2 --batch 16 --no-test --quiet
}

headers_stand_alone() # c or c++
{
    local header
    for header in "$at"/include/meshflow/*.h; do
        echo "#include <meshflow/$(basename "$header")>" |
            clang -x "$1" -fsyntax-only -Wall -Wextra -Wpedantic -Werror -I "$at/include" - || return 1
    done
}

check "install into a directory" install_and_move
check "pkg-config, shared library" shared_by_pkg_config
check "the five steps in C, in at most 60 lines" five_steps
check "closures go to workers and results come back" closures
check "a cluster runs in one process" standalone
check "pkg-config, static library" static_by_pkg_config
check "CMake package" cmake_package
check "the shared library exports mf_ names only" only_our_names
check "each header stands alone in C" headers_stand_alone c
check "each header stands alone in C++" headers_stand_alone c++
check "the installed program runs" "$at/bin/meshflow" --version
check "the installed program needs no Python" no_python
check "the installed program finds its plugins" "$at/bin/meshflow" cert --out "$work/tls"
check "the installed Python package finds its library" env -u MESHFLOW_LIB \
    PYTHONPATH="$at/lib/python3/dist-packages" python3 -c 'import meshflow; meshflow.Server.create_local_server().stop()'
check "man pages are installed" test -s "$at/share/man/man1/meshflow-graph-run.1"

echo "$((n - failed)) passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
