#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Workers placed by Ray: one actor for each, which runs the program with its own TF_CONFIG.

    python3 examples/ray_train.py --workers 3 -- train --model mlp --data fashion-mnist --steps 100

Uses the cluster of RAY_ADDRESS, or one on this machine alone. The program and the data must have the
same paths on all nodes. Between nodes tasks talk over TLS: add --tls-dir DIR, with certificates that
`meshflow cert` made for the nodes' addresses, behind `train`.

Prints what the chief (worker 0) prints. Ends with 0 when all workers did.
"""
import argparse
import json
import os
import shutil
import socket
import subprocess
import sys

import ray


@ray.remote
class Worker:
    """One task of the cluster, wherever Ray has put it."""

    def __init__(self):
        self.process = None

    def node(self):
        return ray.util.get_node_ip_address()

    def port(self, host):
        """A port of this node that is free now."""
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as s:
            s.bind((host, 0))
            return s.getsockname()[1]

    def run(self, command, addresses, index):
        """The exit code and the standard output; standard error goes to Ray's log."""
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        env = dict(os.environ, TF_CONFIG=json.dumps(config))
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, text=True)
        output, _ = self.process.communicate()
        return self.process.returncode, output


def address(host, port):
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def train(command, n, cpus):
    workers = [Worker.options(num_cpus=cpus, scheduling_strategy="SPREAD").remote()
               for _ in range(n)]
    hosts = ray.get([w.node.remote() for w in workers])
    if len(set(hosts)) == 1:  # one node needs no network, and no certificates
        hosts = ["127.0.0.1"] * n
    ports = ray.get([w.port.remote(h) for w, h in zip(workers, hosts)])
    addresses = [address(h, p) for h, p in zip(hosts, ports)]
    # When one fails the others notice, and end by themselves.
    return ray.get([w.run.remote(command, addresses, i) for i, w in enumerate(workers)])


def main():
    parser = argparse.ArgumentParser(description="Train with workers that Ray places.")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cpus", type=float, default=1, help="of each worker, as Ray counts them")
    parser.add_argument("--program", default=shutil.which("meshflow") or "build/meshflow")
    parser.add_argument("command", nargs="+", help="behind --: train --model ...")
    args = parser.parse_args()

    if os.environ.get("RAY_ADDRESS"):
        ray.init()
    else:
        ray.init(address="local", num_cpus=max(1, round(args.workers * args.cpus)),
                 object_store_memory=100 << 20, include_dashboard=False)
    results = train([os.path.abspath(args.program)] + args.command, args.workers, args.cpus)
    for i, (code, _) in enumerate(results):
        if code != 0:
            print(f"worker {i} ended with {code}", file=sys.stderr)
    sys.stdout.write(results[0][1])
    return 0 if all(code == 0 for code, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
