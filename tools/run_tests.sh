#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: run_tests.sh            behind `make test`; T=pattern: only the unit tests that match
#        run_tests.sh --list     prints `name<TAB>command` of each suite and runs nothing
#
# Builds and runs everything that gates a change. Each suite prints TAP lines and, last,
# `N passed, N failed, N skipped`; so does this script, with the sums. A suite that dies without
# such a line, or fails without counting a failure, counts as one failure. With CI=true in the
# environment a skipped test is a failure. The time of each suite follows it, and all times follow
# the last suite.
set -uo pipefail
cd "$(dirname "$0")/.."
list=${1:-}
passed=0 failed=0 skipped=0
scratch=$(mktemp -d)
log=$scratch/log
declare -A begun ended
times=()
trap 'rm -rf "$scratch"' EXIT

suite() # NAME COMMAND...; fails when a test of it did
{
    local name=$1 status p f s start=$SECONDS
    shift
    if [ "$list" = --list ]; then
        printf '%s\t%s\n' "$name" "$*"
        return
    fi
    echo "# $name"
    "$@" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    if [[ $(tail -n 1 "$log") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
        p=${BASH_REMATCH[1]} f=${BASH_REMATCH[2]} s=${BASH_REMATCH[3]}
    else
        echo "not ok - $name ended without its counts, status $status"
        p=0 f=1 s=0
    fi
    if [ "$status" != 0 ] && [ "$f" = 0 ]; then
        echo "not ok - $name: status $status"
        f=1
    fi
    if [ "${CI:-}" = true ] && [ "$s" -gt 0 ]; then
        echo "not ok - $name: $s skipped, with CI=true"
        f=$((f + s)) s=0
    fi
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
    times+=("$((SECONDS - start)) s  $name")
    echo "# $name: $((SECONDS - start)) s"
    [ "$f" = 0 ]
}

one() # NAME COMMAND...: a suite of one test; its output is shown when it fails
{
    local name=$1 out
    shift
    if out=$("$@" 2>&1); then
        echo "ok 1 - $name"
        echo "1 passed, 0 failed, 0 skipped"
    else
        tail -n 100 <<<"$out"
        echo "not ok 1 - $name"
        echo "0 passed, 1 failed, 0 skipped"
        return 1
    fi
}

build() # PRESET TARGET...
{
    cmake --preset "$1" --log-level=WARNING >/dev/null &&
        cmake --build "build/$1" ${2:+--target "${@:2}"}
}

begin() # NAME COMMAND...: beside the tests, with what they leave of the processors
{
    [ "$list" != --list ] || return 0
    (renice -n 19 -p $BASHPID >/dev/null && "${@:2}") >"$scratch/$1" 2>&1 &
    begun[$1]=$!
}

finish() # NAME: waits for it
{
    [ "$list" != --list ] || return 0
    wait "${begun[$1]}"
    ended[$1]=$?
}

said() # NAME: what it has said, and its status
{
    cat "$scratch/$1"
    return "${ended[$1]}"
}

sum_up()
{
    [ "$list" != --list ] || exit 0
    printf '# %s\n' "${times[@]}" "$SECONDS s  in all"
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" = 0 ]
    exit
}

if [ -n "${T:-}" ]; then
    # shellcheck disable=SC2086
    suite "build" one "gcc compiles without warnings" build release meshflow-tests &&
        suite "unit tests" build/release/meshflow-tests $T
    sum_up
fi

suite "layers" tools/check_layers.py
suite "entries" tools/check_host.py
suite "names" tools/check_names.py
suite "links of the documentation" tools/check_docs.py
suite "prose" tools/check_prose.py
suite "build" one "gcc compiles without warnings" build release all bench || sum_up
suite "test runner" tests/runner/selftest.sh build/release/meshflow-tests-red
suite "unit tests" build/release/meshflow-tests
suite "program" tests/cli/run.sh build/release/meshflow
suite "mistakes" tests/cli/mistakes.py build/release/meshflow
suite "host programs" tests/host/run.sh build/release
suite "mission" tools/mission.py build/release/meshflow --test
suite "commands of the documentation" tools/test_docs.py build/release/meshflow
suite "floods" tests/server/floods.py build/release/meshflow invalid_input # the others: make soak
suite "limits of servers" tests/server/limits.py build/release/meshflow
suite "clusters of servers" tests/server/clusters.py build/release/meshflow
suite "certificates of servers" tests/server/certificates.py build/release/meshflow
suite "jobs of a daemon" tests/cli/daemon.py build/release/meshflow
suite "serving" tests/serve/serve.py build/release/meshflow
suite "Python package" tests/python/run.py build/release
suite "training" tests/train/run.py build/release/meshflow
suite "accuracy of variants" tests/train/quality.py build/release/meshflow
suite "strategies" tests/train/strategies.py build/release/meshflow
suite "contrastive learning" tests/train/contrast.py build/release/meshflow
suite "mesh" tests/train/mesh.py build/release/meshflow
suite "detection" tests/train/detection.py build/release/meshflow
suite "pipelines" tests/train/pipeline.py build/release/meshflow
suite "re-layout" tests/train/relayout.py build/release/meshflow
suite "planner" tests/train/plan.py build/release/meshflow
suite "input" tests/train/input.py build/release/meshflow
suite "parameter servers" tests/train/servers.py build/release/meshflow
suite "manifests of Kubernetes" tests/train/manifests.py build/release/meshflow
suite "closures" tests/train/closures.py build/release/meshflow
suite "codecs" tests/train/codecs.py build/release/meshflow
suite "numerics" tests/train/numerics.py build/release/meshflow
suite "jobs" tests/train/jobs.py build/release/meshflow
suite "ends of jobs" tests/train/ends.py build/release/meshflow
suite "output directories" tests/train/outputs.py build/release/meshflow
suite "stalls" tests/train/hang.py build/release/meshflow
# The next tests wait more than they compute.
begin clang build replay meshflow fuzzers
begin venv tools/make_venv.sh
suite "members" tests/train/members.py build/release/meshflow
suite "groups" tests/train/groups.py build/release/meshflow
suite "partitions" tests/train/partition.py build/release/meshflow
suite "faults" tests/train/faults.py build/release/meshflow
suite "interrupts" tests/train/interrupts.py build/release/meshflow
# One compilation serves both: the warnings of clang, and corpora under sanitizers. Tests and
# benchmarks are left to `make check`, which runs them so.
finish clang
suite "clang" one "clang compiles without warnings, with sanitizers" said clang &&
    suite "fuzz corpora" tools/replay_fuzz.sh build/replay
suite "install" tests/install/run.sh build/release
suite "bundle" tests/bundle/run.sh build/release
finish venv
suite "own data against Keras" tools/run_tf_tests.sh --own-data
suite "aggregation" build/venv/bin/python tests/train/aggregation.py build/release/meshflow # NumPy is there
suite "TensorFlow" tools/run_tf_tests.sh
sum_up
