#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: train.sh BUILD_DIR      the same training job started in every way there is on one machine
#
# Open MPI, MPICH, torchrun, Ray, the launcher, and TF_CONFIG by hand: the weights must be those of
# one process.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
. tests/engines/lib.sh
trap 'rm -rf "$work"' EXIT
program=$PWD/$1/meshflow
as_root=()
[ "$(id -u)" != 0 ] || as_root=(--allow-run-as-root)
net="multi_worker_mirrored collective=net" # no shared memory: all traffic uses the transport

have() # NAME COMMAND WHAT: else NAME is skipped, because WHAT is missing
{
    command -v "$2" >/dev/null && return
    skip "$1" "$3"
    return 1
}

alone "$program"

# ---- MPI ----

open_mpi=(mpirun.openmpi "${as_root[@]}" --oversubscribe -n 4)
name="four tasks under Open MPI"
if have "$name" mpirun.openmpi "package openmpi-bin is not installed"; then
    echo "# $(mpirun.openmpi --version | head -n 1)"
    trained "$name" 4 "${open_mpi[@]}" "$program" "${job[@]}"
    if [ -e "$1/plugins/meshflow-mpi-openmpi.so" ]; then
        trained "$name, MPI carries everything" 4 \
            "${open_mpi[@]}" "$program" "${job[@]}" --transport mpi --strategy "$net"
    else
        skip "$name, MPI carries everything" "package libopenmpi-dev is not installed"
    fi
fi
name="three tasks under MPICH"
if have "$name" mpiexec.mpich "package mpich is not installed"; then
    echo "# MPICH $(mpiexec.mpich --version | sed -n 's/ *Version: *//p')"
    trained "$name" 3 mpiexec.mpich -n 3 "$program" "${job[@]}"
    if [ -e "$1/plugins/meshflow-mpi-mpich.so" ]; then
        trained "$name, MPI carries everything" 3 \
            mpiexec.mpich -n 3 "$program" "${job[@]}" --transport mpi --strategy "$net"
    else
        skip "$name, MPI carries everything" "package libmpich-dev is not installed"
    fi
fi

# ---- Python's ----

torch=build/venv-torch/bin
name="three tasks under torchrun"
if have "$name" $torch/torchrun "tools/make_peer_venv.sh torch makes it (5 GB)"; then
    echo "# torch $($torch/python -c 'from importlib.metadata import version; print(version("torch"))')"
    trained "$name" 3 $torch/torchrun --no-python --nproc-per-node 3 "$program" "${job[@]}"
fi
name="three tasks under Ray"
if tools/make_peer_venv.sh ray >"$work/log" 2>&1; then
    ray=build/venv-ray/bin/python
    echo "# ray $($ray -c 'from importlib.metadata import version; print(version("ray"))')"
    trained "$name" 3 env -u RAY_ADDRESS RAY_USAGE_STATS_ENABLED=0 \
        $ray examples/ray_train.py --workers 3 --program "$program" -- "${job[@]}"
else
    skip "$name" "tools/make_peer_venv.sh ray cannot install ray from PyPI"
fi

# ---- without an engine ----

trained "the launcher, three workers" 3 "$program" launch --workers 3 --json -- "${job[@]}"
trained "the launcher, three workers and two parameter servers" 3 \
    "$program" launch --workers 3 --ps 2 --json -- "${job[@]}" --strategy parameter_server

free_ports() # N unused ports
{
    python3 -c '
import socket, sys
s = [socket.socket() for _ in range(int(sys.argv[1]))]
for x in s: x.bind(("127.0.0.1", 0))
print(*(x.getsockname()[1] for x in s))' "$1"
}
read -ra ports < <(free_ports 3)
list="\"127.0.0.1:${ports[0]}\",\"127.0.0.1:${ports[1]}\",\"127.0.0.1:${ports[2]}\""
by_hand() # INDEX
{
    TF_CONFIG="{\"cluster\":{\"worker\":[$list]},\"task\":{\"type\":\"worker\",\"index\":$1}}" \
        timeout 120 "$program" "${job[@]}" "${more[@]}"
}
more=()
all_trained "TF_CONFIG by hand, three processes" 3 by_hand
more=(--transport grpc --strategy "$net")
all_trained "TF_CONFIG by hand, gRPC carries everything" 3 by_hand
finish
