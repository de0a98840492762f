#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: mpi.sh BUILD_DIR      tasks started by Open MPI's mpirun and by MPICH's mpiexec
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
. tests/engines/lib.sh
trap 'rm -rf "$work"' EXIT
check=$PWD/$1/net-check
as_root=()
[ "$(id -u)" != 0 ] || as_root=(--allow-run-as-root)

run() # NAME FILE COMMAND...: four tasks that talk
{
    local name=$1 file=$2
    shift 2
    if [ ! -e "$file" ]; then
        skip "$name" "there is no $file: install the packages of group engines"
        return
    fi
    timeout 120 "$@" >"$work/log" 2>&1
    verdict "$name" $? "task 0 of 4: ok" "task 1 of 4: ok" "task 2 of 4: ok" "task 3 of 4: ok"
    grep -E '^(a small|large)' "$work/log" | sed 's/^/# /'
}

run "four tasks under Open MPI" "$1/plugins/meshflow-mpi-openmpi.so" \
    mpirun.openmpi "${as_root[@]}" --oversubscribe -n 4 "$check" mpi
run "four tasks under MPICH" "$1/plugins/meshflow-mpi-mpich.so" mpiexec.mpich -n 4 "$check" mpi

# A single process does not initialize MPI.
"$check" mpi >"$work/log" 2>&1
[ $? = 1 ]
verdict "without MPI the error names mpirun" $? "mpirun -n 4 meshflow"

# A task that fails ends the job instead of leaving the others to wait.
if [ -e "$1/plugins/meshflow-mpi-openmpi.so" ]; then
    # shellcheck disable=SC2016
    timeout 60 mpirun.openmpi "${as_root[@]}" --oversubscribe -n 2 \
        sh -c '[ "$OMPI_COMM_WORLD_RANK" = 0 ] || exit 3; exec "$0" mpi' "$check" >"$work/log" 2>&1
    status=$?
    [ "$status" != 0 ] && [ "$status" != 124 ]
    verdict "a task that ends early ends the job" $?
fi
finish
