#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""All-reduce between hosts, simulated by network namespaces of this machine (root): UCX on a trusted site, and
gRPC with TLS, against Open MPI over TCP and the rate that iperf3 sees. One row each: subject, size,
ours, the peer, ratio (above 1: we are better), and which share of iperf's rate we reach, counting
2 (n - 1) / n of the bytes for n hosts.

Usage: hosts.py [--hosts 2,4] [--rounds 5] [--sizes 1048576,...] [--rate MBIT]

--rate: shapes each host's link. Open MPI and iperf3 are not installed for this: `apt install
openmpi-bin libopenmpi-dev iperf3` brings them in. Rounds alternate; medians are compared.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import time

import comm
import namespaces

BUILD = comm.BUILD


class Ours(comm.Worker):
    """One process per host; the first one prints the result."""

    def __init__(self, hosts, name, transport, port, secure):
        program = os.path.join(BUILD, "release", "bench", "allreduce")
        addresses = ",".join("%s:%d" % (ip, port) for ip in hosts.ips)

        def start(i, **kind):
            return hosts.start(i, [program, transport, addresses, str(i)],
                               {"MESHFLOW_LOG": "error",
                                "MESHFLOW_PLUGIN_PATH": os.path.join(BUILD, "release", "plugins"),
                                **(hosts.certificates(i) if secure else {})}, **kind)

        super().__init__(name, None, lambda _, **kind: start(0, **kind))
        self.others = [start(i) for i in range(1, len(hosts.ips))]

    def close(self):
        super().close()
        for p in self.others:
            p.communicate()


def open_mpi(hosts):
    program = comm.open_mpi_program()
    if not program:
        return []
    agent = os.path.join(hosts.dir.name, "agent")  # replaces ssh
    with open(agent, "w") as f:
        f.write("#!/bin/sh\nhost=$1\nshift\ncase $host in\n")
        for name, ip in zip(hosts.names, hosts.ips):
            f.write("%s) exec ip netns exec %s sh -c \"$*\" ;;\n" % (ip, name))
        f.write("esac\n")
    os.chmod(agent, 0o755)
    return [comm.Worker("openmpi", [
        "mpirun", "--allow-run-as-root", "--host", ",".join(hosts.ips), "-n", str(len(hosts.ips)),
        "--map-by", "node", "--mca", "plm_rsh_agent", agent, "--mca", "pml", "ob1", "--mca", "btl",
        "tcp,self", "--mca", "btl_tcp_if_include", "eth0", "--mca", "oob_tcp_if_include", "eth0", program],
        lambda command, **kind: hosts.start(0, command, **kind))]


def iperf(hosts):
    """Bytes per second between two hosts, in both directions at once; None: iperf3 is not installed."""
    if not shutil.which("iperf3"):
        print("# without iperf3: it is not installed")
        return None
    server = hosts.start(1, ["iperf3", "-s", "-1"], stdout=subprocess.DEVNULL)
    time.sleep(0.5)
    said = hosts.start(0, ["iperf3", "-c", hosts.ips[1], "-t", "3", "--bidir", "-J"]).communicate()[0]
    server.wait()
    end = json.loads(said)["end"]
    return min(end[k]["bits_per_second"] for k in ("sum_received", "sum_received_bidir_reverse")) / 8


def compare(n, a):
    with namespaces.Hosts(n, a.rate) as hosts:
        hosts.make_certificates(os.path.join(BUILD, "release", "meshflow"))
        limit = iperf(hosts)
        if limit:
            print("# iperf3 between two hosts: %.2f GB/s each way" % (limit * 1e-9))
        mine = [Ours(hosts, "ucx", "ucx", 2222, False), Ours(hosts, "grpc, tls", "grpc", 2223, True)]
        peers = open_mpi(hosts)
        for size in [int(s) for s in a.sizes.split(",")]:
            times = {p: [] for p in mine + peers}
            for _ in range(a.rounds):
                for p in times:
                    times[p].append(p.seconds(size)[0])
            usual = {p: statistics.median(t) for p, t in times.items()}
            for m in mine:
                share = 2 * (n - 1) / n * size / usual[m] / limit if limit else float("nan")
                for p in peers or [m]:
                    print("%-40s %-8s %10.1f %10.1f us %8.2f %8.2f" % (
                        "all-reduce %s, %d hosts / %s" % (m.name, n, p.name), comm.text(size), usual[m] * 1e6,
                        usual[p] * 1e6, usual[p] / usual[m], share), flush=True)
        for p in mine + peers:
            p.close()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--hosts", default="2,4")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--sizes", default="1048576,16777216,67108864")
    p.add_argument("--rate", type=float)
    a = p.parse_args()
    print("# load %s" % " ".join("%.1f" % x for x in os.getloadavg()))
    for n in a.hosts.split(","):
        compare(int(n), a)


main()
