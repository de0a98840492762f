#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: make_bundle.sh BUILD_DIR [OUT_DIR]      default: build
#
# Behind `make bundle`: OUT_DIR/meshflow-VERSION-linux-x86_64/ and the same as .tar.xz, from a release in
# BUILD_DIR. The tree runs from any folder of any x86-64 Linux whose glibc is not older than $GLIBC:
# program, library, plugins, headers, and the shared libraries that they need.
#
# Each library that a file needs is one of three kinds, by its name without ".so.N":
#   host     part of glibc
#   bundled  copied unchanged from its Debian package, with the licence
#   else     an error: decide, and add it to a list
# Plugins for MPI and UCX are in the tree, without libraries: MPI and UCX are those of the cluster, which fit
# its launcher and network.
set -euo pipefail
HOST="libc libm libmvec libpthread libdl librt libresolv libutil libanl"
CLUSTER="libmpi libmpich libucp libucs"
BUNDLED="libprotobuf-c libisal libz libzip libbz2 libzstd liblzma libsleef libpcre2-8 libpng16 libjpeg libnettle
    libhogweed libgmp libgnutls libtasn1 libp11-kit libffi libidn2 libunistring libjansson libgcc_s libstdc++ libhwloc libudev libcap libevent_core libevent_extra libevent_core-2.1
    libevent_extra-2.1 libgrpc libgpr libupb libaddress_sorting libabsl_* libre2 libcares libssl libcrypto
    libcurl libnghttp2 librtmp libssh2 libpsl libgssapi_krb5 libkrb5 libk5crypto libkrb5support libcom_err
    libkeyutils libldap-2.5 liblber-2.5 libsasl2 libbrotlidec libbrotlicommon"
GLIBC=2.36
LARGEST=20000000 # bytes of the tarball

cd "$(dirname "$0")/.."
build=$(cd "$1" && pwd)
version=$(sed -n 's/#define MESHFLOW_VERSION "\(.*\)"/\1/p' include/meshflow/version.h)
name=meshflow-$version-linux-x86_64
mkdir -p "${2:-build}"
out=$(cd "${2:-build}" && pwd)
tree=$out/$name

die() { echo "make_bundle.sh: $*" >&2; exit 1; }

is_one_of() # FILE PATTERNS: by its name without the version
{
    local name=${1##*/} pattern
    for pattern in $2; do
        # shellcheck disable=SC2053
        [[ ${name%%.so*} == $pattern ]] && return
    done
    return 1
}

# The name and the path of every library that a file needs, and that those need; "not" for what is not found.
needed_by() { ldd "$1" | awk '$2 == "=>" { print $1, $3 }'; }

package_of() # FILE: dpkg knows some files by their path before /lib became a link
{
    dpkg-query -S "$1" 2>/dev/null || dpkg-query -S "${1#/usr}" 2>/dev/null
}

copy_licence() # PACKAGE
{
    local doc=/usr/share/doc/${1%%:*}/copyright common
    mkdir -p "$tree/licenses/common"
    cp -L "$doc" "$tree/licenses/${1%%:*}" || die "$1 has no licence in $doc"
    for common in $(grep -oE '/usr/share/common-licenses/[A-Za-z0-9.-]*[A-Za-z0-9]' "$doc" | sort -u); do
        [ ! -e "$common" ] || cp -L "$common" "$tree/licenses/common/"
    done
}

copy_library() # NAME PATH
{
    local real package
    real=$(readlink -f "$2")
    package=$(package_of "$real" | head -n 1)
    package=${package%: *}
    [ -n "$package" ] || die "$real is of no Debian package: its licence is not known"
    ! readelf -d "$real" | grep -qE 'RPATH|RUNPATH' || die "$real has a search path of its own"
    cp "$real" "$tree/lib/$1"
    copy_licence "$package"
    echo "$1 $package $(dpkg-query -W -f '${Version}' "$package")" >>"$tree/BUILD.libraries"
}

copy_libraries() # FILE
{
    local name path
    while read -r name path; do
        if is_one_of "$name" "$HOST" || [ -e "$tree/lib/$name" ]; then
            continue
        elif ! is_one_of "$name" "$BUNDLED"; then
            die "$1 needs $name, which is neither of the host nor bundled: add it to HOST or BUNDLED"
        elif [ ! -e "$path" ]; then
            die "$1 needs $name, which is not installed"
        fi
        copy_library "$name" "$path"
    done < <(needed_by "$1")
}

is_of_a_cluster() # FILE
{
    local name
    for name in $(readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
        if is_one_of "$name" "$CLUSTER"; then return; fi
    done
    return 1
}

install_tree()
{
    rm -rf "$tree"
    cmake --install "$build" --prefix "$tree" --strip >/dev/null
    rm "$tree"/lib/*.a # needs packages of Debian to link
    mkdir "$tree/bench"
    cp bench/machine.sh bench/train.py bench/threads.py bench/measure.py bench/peer_torch.py "$tree/bench"
    strip -o "$tree/bench/peak" "$build/bench/peak"
    cp LICENSE "$tree"
    cp docs/guides/install.md "$tree/README.md"
}

files_of_ours() { printf '%s\n' "$tree"/bin/* "$tree"/lib/libmeshflow.so.*.* "$tree"/lib/meshflow/*.so "$tree/bench/peak"; }

needed_glibc() # the newest version of a symbol that a file wants
{
    { find "$tree" -type f -exec readelf -VW {} + 2>/dev/null || true; } | # many are no ELF files
        grep -oE 'GLIBC_2\.[0-9]+' | sort -uV | tail -n 1
}

write_build()
{
    local glibc
    glibc=$(needed_glibc)
    [ "$(printf '%s\n' "GLIBC_$GLIBC" "$glibc" | sort -V | tail -n 1)" = "GLIBC_$GLIBC" ] ||
        die "a file needs $glibc, newer than $GLIBC: build on Debian 12"
    {
        "$tree/bin/meshflow" version | sed '/this processor/s/; this processor.*//'
        echo "commit $(git describe --always --dirty 2>/dev/null || echo unknown)"
        echo "needs glibc $GLIBC or newer; symbols up to ${glibc#GLIBC_} are used"
        echo "bundled libraries, their Debian packages and versions; licences are in licenses/:"
        sort "$tree/BUILD.libraries"
    } >"$tree/BUILD"
    rm "$tree/BUILD.libraries"
}

pack()
{
    local date bytes
    date=$(git log -1 --format=%ct 2>/dev/null || echo 0)
    tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$date" -c "$name" |
        xz -T0 --x86 --lzma2=preset=6,dict=64MiB >"$tree.tar.xz"
    bytes=$(stat -c %s "$tree.tar.xz")
    echo "$tree.tar.xz: $bytes bytes, $(du -sb "$tree" | cut -f 1) unpacked"
    [ "$bytes" -lt "$LARGEST" ] || die "$tree.tar.xz has more than $LARGEST bytes"
}

install_tree
for file in $(files_of_ours); do
    is_of_a_cluster "$file" || copy_libraries "$file"
done
write_build
pack
