#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Usage: slurm.sh BUILD_DIR      tasks started by srun, on a Slurm of our own
#
# munged, slurmctld and slurmd run with keys, ports and state of their own, and as the only processes
# of a process namespace, so that nothing of them is left whatever happens. Needs root.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
. tests/engines/lib.sh
program=$PWD/$1/meshflow
daemons=

clean()
{
    if [ -n "$daemons" ]; then
        kill -KILL "$daemons" 2>/dev/null
        while kill -0 "$daemons" 2>/dev/null; do sleep 0.1; done
    fi
    rm -rf "$work"
}
trap clean EXIT
trap 'exit 1' INT TERM

name="three tasks under Slurm"
for tool in srun slurmctld slurmd munged mungekey; do
    if ! command -v $tool >/dev/null || [ "$(id -u)" != 0 ]; then
        skip "$name" "that needs root, and $tool of the packages slurm-wlm and munge"
        finish
        exit
    fi
done

write_config()
{
    local host port=$((20000 + $$ % 5000 * 2))
    host=$(hostname -s)
    cat >"$work/slurm.conf" <<END
ClusterName=meshflow
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$port
SlurmdPort=$((port + 1))
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=8
PartitionName=all Nodes=$host Default=YES
END
}

start()
{
    mkdir "$work/state" "$work/spool"
    chmod 755 "$work" # munge wants its socket to be within reach
    write_config
    mungekey --create --keyfile="$work/munge.key" || return 1
    # shellcheck disable=SC2016
    unshare --pid --fork --kill-child --mount-proc bash -c '
        cd "$0"
        munged -F --key-file=munge.key --socket="$0/munge.socket" --log-file="$0/munged.log" \
            --pid-file="$0/munged.pid" --seed-file="$0/munged.seed" >munged.out 2>&1 &
        until [ -S munge.socket ]; do sleep 0.1; done
        slurmctld -D -f "$0/slurm.conf" >slurmctld.log 2>&1 &
        slurmd -D -f "$0/slurm.conf" >slurmd.log 2>&1 &
        wait' "$work" &
    daemons=$!
    disown # suppresses the shell's message about the kill
    export SLURM_CONF=$work/slurm.conf
    for ((i = 0; i < 60; i++)); do
        ! sinfo -h -o %T 2>/dev/null | grep -q idle || return 0
        sleep 0.5
    done
    echo "no node is idle after half a minute"
    tail -n 10 "$work"/*.log
    return 1
}

start >"$work/log" 2>&1
verdict "a Slurm of our own: $(srun --version)" $?
if [ "$failed" = 0 ]; then
    alone "$program"
    trained "$name" 3 srun -n 3 "$program" "${job[@]}"
fi
finish
