#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: run.sh BUILD_DIR
#
# Makes a bundle, unpacks it in another folder, moves it, and uses it as on a machine without our packages: as root,
# in a root folder that has glibc and the bundle only.
set -uo pipefail
cd "$(dirname "$0")" || exit
top=$(cd ../.. && pwd)
build=$(cd "$top" && cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
at=$root/opt/moved
n=0 failed=0 skipped=0
unset LD_LIBRARY_PATH
GLIBC="libc.so.6 libm.so.6 libmvec.so.1 libpthread.so.0 libdl.so.2 librt.so.1 libresolv.so.2"
TRAINING="train --model wide-deep --data synthetic-ctr --set count=512 --batch 16 --steps 20 --no-test --quiet --json"

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

make_bundle() { "$top/tools/make_bundle.sh" "$build" "$work/made"; }

# Without a library in its lists, the script fails and names it.
refuse_unknown_library()
{
    mkdir -p "$work/copy/tools" &&
        ln -s "$top"/{include,bench,docs,LICENSE} "$work/copy/" &&
        sed 's/ libjansson / /' "$top/tools/make_bundle.sh" >"$work/copy/tools/make_bundle.sh" &&
        ! bash "$work/copy/tools/make_bundle.sh" "$build" "$work/refused" 2>"$work/said" &&
        grep 'needs libjansson.so.4, which is neither of the host nor bundled' "$work/said"
}

unpack_and_move()
{
    mkdir -p "$work/first" "$root/opt" && tar -C "$work/first" -xf "$work"/made/*.tar.xz &&
        mv "$work"/first/meshflow-* "$at" && rm -r "$work/made" && [ -s "$at/licenses/libgrpc29" ]
}

runs() { "$@" version | grep -q '^meshflow 0' && "$@" doctor env | grep -q threads; } # PROGRAM...

through_a_link() { mkdir "$work/link" && ln -s "$at/bin/meshflow" "$work/link/" && runs "$work/link/meshflow"; }

weights() { sed -n 's/.*"weights_sha256":"\([0-9a-f]*\)".*/\1/p'; }

# The bits are those of the build.
# shellcheck disable=SC2086
trains() # PROGRAM...
{
    local got
    got=$("$@" $TRAINING | weights)
    [ ${#got} = 64 ] && [ "$got" = "$("$build/meshflow" $TRAINING | weights)" ]
}

# shellcheck disable=SC2046
compile_program()
{
    gcc "$top/examples/regression.c" -o "$at/program" \
        $(PKG_CONFIG_PATH=$at/lib/pkgconfig pkg-config --cflags --libs meshflow) -Wl,-rpath,"\$ORIGIN/lib" &&
        "$at/program"
}

# Every library that the commands load, plugins included, lies in the bundle or is part of glibc.
loads_the_bundles_only() # COMMAND...
{
    local path others=0
    LD_DEBUG=files LD_DEBUG_OUTPUT=$work/loaded "$@" || return 1
    while read -r path; do
        if [[ $(readlink -f "$path") != "$at"/* && " $GLIBC " != *" ${path##*/} "* && ${path##*/} != ld-linux-* ]]; then
            echo "$path is loaded"
            others=1
        fi
    done < <(sed -n 's/.*calling init: //p' "$work"/loaded.* | sort -u)
    grep -q "calling init: $at/" "$work"/loaded.* && rm "$work"/loaded.* && [ $others = 0 ]
}

plugins_find_their_libraries()
{
    ldd "$at"/lib/meshflow/meshflow-{grpc,etcd}.so >"$work/found" &&
        grep "libgrpc.so.* => $at/" "$work/found" && grep "libcurl.so.* => $at/" "$work/found" &&
        ! grep '=> ' "$work/found" | grep -vF -e "$at/" -e /libc.so -e /libm.so -e /libresolv.so
}

# A part of the benchmarks, with whatever Python there is.
benchmarks_run()
{
    (cd "$work" && TORCH_PYTHON=python3 "$at/bench/machine.sh" --rounds 1 mlp) &&
        python3 - "$work/results/mlp.json" <<'END'
import json
import sys
told = json.load(open(sys.argv[1]))
assert told["peak"]["fp32"] > 0
assert [(r["batch"], r["flops_per_sample"]) for r in told["rows"]] == [(32, 409088), (128, 409088)]
assert all(r["ours"]["median"] > 0 for r in told["rows"])
END
}

# ---- nothing but glibc ----

make_root()
{
    local name
    mkdir -p "$root"/{proc,dev,tmp,lib64,lib/x86_64-linux-gnu} &&
        cp -L /lib64/ld-linux-x86-64.so.2 "$root/lib64/" || return 1
    for name in $GLIBC; do
        cp -L "/lib/x86_64-linux-gnu/$name" "$root/lib/x86_64-linux-gnu/" || return 1
    done
}

# shellcheck disable=SC2016
inside() # COMMAND...: in the root folder; its mounts end with the command
{
    unshare --mount sh -c 'root=$1; shift
        mount -t proc proc "$root/proc" && mount --bind /dev "$root/dev" && exec chroot "$root" "$@"' sh "$root" "$@"
}

without_other_libraries()
{
    make_root && runs inside /opt/moved/bin/meshflow && trains inside /opt/moved/bin/meshflow && inside /opt/moved/program &&
        inside /opt/moved/bin/meshflow cert --out /tmp/tls && [ -s "$root/tmp/tls/ca.pem" ]
}

check "a bundle is made" make_bundle
check "a library of unknown kind is refused" refuse_unknown_library
check "it is unpacked and moved" unpack_and_move
check "its program runs" runs "$at/bin/meshflow"
check "its program runs through a symbolic link" through_a_link
check "a training has the bits of the build" trains "$at/bin/meshflow"
check "a program is linked to its library" compile_program
check "the program loads no other libraries" loads_the_bundles_only "$at/bin/meshflow" cert --out "$work/tls"
check "the library loads no other libraries" loads_the_bundles_only "$at/program"
check "plugins find their libraries" plugins_find_their_libraries
check "benchmarks run" benchmarks_run
if unshare --mount true 2>/dev/null; then
    check "all of this works without other libraries" without_other_libraries
else
    n=$((n + 1)) skipped=1
    echo "ok $n - all of this works without other libraries # SKIP needs root"
fi

echo "$((n - failed - skipped)) passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
