#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: run.sh BUILD_DIR      behind `make engines`: what needs more than `make test` installs
#
# Every part is a script or program that prints TAP lines and, last, its counts; so does this one.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
build=$1
passed=0 failed=0 skipped=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

part() # NAME COMMAND...
{
    local name=$1 status
    shift
    echo "# $name"
    "$@" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    if [[ $(tail -n 1 "$log") =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
        passed=$((passed + BASH_REMATCH[1])) skipped=$((skipped + BASH_REMATCH[3]))
        failed=$((failed + BASH_REMATCH[2]))
        if [ "$status" != 0 ] && [ "${BASH_REMATCH[2]}" = 0 ]; then failed=$((failed + 1)); fi
    else
        echo "not ok - $name ended without its counts, status $status"
        failed=$((failed + 1))
    fi
}

part "UCX, etcd" "$build/meshflow-engine-tests"
part "MPI" tests/engines/mpi.sh "$build"
part "hosts" tests/engines/netns.sh "$build"
part "training" tests/engines/train.sh "$build"
part "training under Slurm" tests/engines/slurm.sh "$build"
part "training on hosts" tests/engines/train_hosts.sh "$build"
part "peers" tests/engines/peers.sh "$build"
part "parameter servers on hosts" tests/train/servers.py "$build/meshflow" --hosts
part "a cluster in one process, under valgrind" tests/engines/valgrind.sh "$build"
part "more of strategies" tests/train/strategies.py "$build/meshflow" --hosts
part "codecs, longer" tests/train/codecs.py "$build/meshflow" --hosts
part "clusters of servers on hosts" tests/server/clusters.py "$build/meshflow" --hosts
part "status of hosts" tests/train/jobs.py "$build/meshflow" --hosts
part "stalls of hosts" tests/train/hang.py "$build/meshflow" --hosts
part "more of members" tests/train/members.py "$build/meshflow" --hosts
part "more of the mesh" tests/train/mesh.py "$build/meshflow" --hosts
part "more of re-layout" tests/train/relayout.py "$build/meshflow" --hosts
part "groups, longer" tests/train/groups.py "$build/meshflow" --hosts
part "partitions" tests/train/partition.py "$build/meshflow" --hosts
part "the mesh against JAX and Mesh TensorFlow" tests/mesh/run.sh "$build"
part "more faults" tests/train/faults.py "$build/meshflow" --hosts
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
