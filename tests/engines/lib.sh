# SPDX-License-Identifier: Apache-2.0
#
# What the scripts of this directory have in common: TAP lines and counts.
n=0 failed=0 skipped=0
work=$(mktemp -d)

verdict() # NAME STATUS [PATTERN...]: of what wrote $work/log, which must contain the patterns
{
    local name=$1 status=$2 why=
    shift 2
    n=$((n + 1))
    [ "$status" = 0 ] || why="status $status"
    for part in "$@"; do
        grep -qF -e "$part" "$work/log" || why="$why; no '$part'"
    done
    if [ -z "$why" ]; then
        echo "ok $n - $name"
    else
        echo "not ok $n - $name"
        echo "#   $why"
        head -n 40 "$work/log" | sed 's/^/#   /'
        failed=$((failed + 1))
    fi
}

skip() # NAME WHY
{
    n=$((n + 1)) skipped=$((skipped + 1))
    echo "ok $n - $1 # SKIP $2"
}

finish()
{
    echo "$((n - failed - skipped)) passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
}
