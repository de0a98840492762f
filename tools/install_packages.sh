#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: install_packages.sh GROUP...
#
# Installs missing packages of these groups of tools/packages.txt, as root or by sudo. Without either,
# prints them and the command that installs them, and fails. On systems that are not based on Debian it
# does nothing: cmake reports what it does not find.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v dpkg-query >/dev/null || exit 0

wanted=$(awk -v groups=" $* " '
    /^\[/ { group = substr($1, 2, length($1) - 2); next }
    /^[^# \t]/ && index(groups, " " group " ") { print $1 }' tools/packages.txt)
# shellcheck disable=SC2086
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' $wanted 2>/dev/null |
    sed -n 's/^installed //p' || true)
missing=$(comm -23 <(sort -u <<<"$wanted") <(sort -u <<<"$installed") | tr '\n' ' ')
[ -n "${missing// /}" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
    if command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
        as_root=sudo
    else
        echo "These packages are missing, and installing them needs root or sudo:" >&2
        echo "    $missing" >&2
        echo "Type as root:" >&2
        echo "    apt-get update && apt-get install --no-install-recommends $missing" >&2
        exit 1
    fi
fi

echo "installing: $missing"
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get -q update
# shellcheck disable=SC2086
$as_root env DEBIAN_FRONTEND=noninteractive \
    apt-get -q install -y --no-install-recommends $missing
