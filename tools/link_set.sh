#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: link_set.sh OUT SET LOWER|- OBJECT...
#
# Links the objects of one instruction set into the object OUT. Every global symbol that they define
# gets the suffix _SET, so calls among them stay in the set. Their calls of functions of a lower set
# go there: LOWER is its OUT ("-": none). All other calls go to the library.
# OUT.symbols lists each symbol of this and of the lower sets with its new name.
# Fails if an object has variables: there would be one per set. LD, NM and OBJCOPY are commands.
set -euo pipefail
out=$1 set=$2 lower=$3
shift 3
: "${LD:=ld}" "${NM:=nm}" "${OBJCOPY:=objcopy}"

"$LD" -r -o "$out.linked" "$@"
own=$("$NM" --defined-only --extern-only --format=posix "$out.linked" | cut -d' ' -f1)
variables=$("$NM" --defined-only --format=sysv "$out.linked" |
    awk -F'|' '$7 ~ /^\.(data|bss|tdata|tbss)$|^\.(data|bss)\.[^r]/ { print $1 }')
if [ -n "$variables" ] && [ -z "${MAY_HAVE_VARIABLES:-}" ]; then
    echo "link_set.sh: sources of the instruction set $set define variables:" $variables >&2
    exit 1
fi
{
    for name in $own; do echo "$name ${name}_$set"; done
    [ "$lower" = - ] || grep -vwFf <(printf '%s\n' $own) "$lower.symbols" || true
} >"$out.symbols"
"$OBJCOPY" --redefine-syms="$out.symbols" "$out.linked" "$out"
rm "$out.linked"
