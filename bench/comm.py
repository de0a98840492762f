#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All-reduce between processes of one host against gloo (PyTorch) and Open MPI (in shared memory, its default, and over
TCP), if they are installed. Ours: in shared memory, and over Unix sockets. One row each:
subject, size, Meshflow, the peer, ratio (above 1: Meshflow is faster), and the ratio of the best tenths, which are
less sensitive to load.

Usage: comm.py [--processes 2,4] [--rounds 5] [--sizes 4096,...]

Open MPI is not installed automatically: `apt install openmpi-bin libopenmpi-dev`. Rounds alternate between
Meshflow and the peers; medians are compared.
"""
import argparse
import os
import shutil
import statistics
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join(os.path.dirname(HERE), "build")


class Worker:
    """A process that answers a number of bytes with seconds: the median and the best tenth."""

    def __init__(self, name, command, start=subprocess.Popen):
        self.name = name
        self.p = start(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                       stderr=subprocess.DEVNULL)

    def seconds(self, size):
        self.p.stdin.write("%d\n" % size)
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            raise RuntimeError("%s has ended" % self.name)
        return [float(x) for x in line.split()]

    def close(self):
        self.p.stdin.close()
        self.p.wait()


def open_mpi_program():
    """Built; None: Open MPI is not installed."""
    if not (shutil.which("mpicc") and shutil.which("mpirun")):
        print("# without Open MPI: openmpi-bin and libopenmpi-dev are not installed")
        return None
    program = os.path.join(BUILD, "bench-mpi-allreduce")
    subprocess.run(["mpicc", "-O2", "-o", program, os.path.join(HERE, "mpi", "allreduce.c")], check=True)
    return program


def peers(n):
    python = os.path.join(BUILD, "venv-torch", "bin", "python")
    if os.path.exists(python):
        yield Worker("gloo", [python, os.path.join(HERE, "peer_gloo.py"), str(n)])
    else:
        print("# without gloo: there is no PyTorch (tools/make_peer_venv.sh torch)")
    program = open_mpi_program()
    if program:
        mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(n)]
        yield Worker("openmpi", [*mpirun, program])
        yield Worker("openmpi-tcp", [*mpirun, "--mca", "btl", "tcp,self", program])


def text(size):
    return "%d MB" % (size >> 20) if size >= 1 << 20 else "%d KB" % (size >> 10)


def print_rows(subject, size, rounds, ours, others):
    """One for Meshflow and for each peer; rounds alternate."""
    times = {w: [] for w in ours + others}
    for _ in range(rounds):
        for w in times:
            times[w].append(w.seconds(size))
    usual = {w: statistics.median(x[0] for x in t) for w, t in times.items()}
    lucky = {w: statistics.median(x[1] for x in t) for w, t in times.items()}
    for w in ours:
        for p in others:
            print("%-34s %-8s %10.1f %10.1f us %8.2f    %8.2f" %
                  (subject(w.name, p.name), text(size), usual[w] * 1e6, usual[p] * 1e6,
                   usual[p] / usual[w], lucky[p] / lucky[w]), flush=True)


def compare(n, sizes, rounds):
    program = os.path.join(BUILD, "release", "bench", "allreduce")
    ours = [Worker(way, [program, str(n), way]) for way in ("memory", "sockets")]
    others = list(peers(n))
    for size in sizes:
        print_rows(lambda w, p: "all-reduce %s, %d / %s" % (w, n, p), size, rounds, ours, others)
    for w in ours + others:
        w.close()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--processes", default="2,4")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--sizes", default="4096,65536,1048576,16777216,67108864")
    a = p.parse_args()
    print("# load %s" % " ".join("%.1f" % x for x in os.getloadavg()))
    for n in a.processes.split(","):
        compare(int(n), [int(s) for s in a.sizes.split(",")], a.rounds)


if __name__ == "__main__":
    main()
