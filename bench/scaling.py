#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weak scaling from 1 to 8 processes: each has 64 samples of every batch, whatever their number. CPU time and bytes are
measured, which does not need as many cores as processes. Then threads of one process: instructions per step of `mlp`
(valgrind counts them, threads do not poll) with 16 and 64 threads, against 2.

Usage: scaling.py [--processes 1,2,4,8] [--steps 40] [--rounds 3]      MESHFLOW: the program (build/meshflow)

Ours: workers of one thread, in shared memory and over sockets (the ring). Peer: TensorFlow's
MultiWorkerMirroredStrategy with its ring, same network, same batch, if build/venv has TensorFlow; in a network
namespace of its own, whose loopback counts its bytes (needs root; otherwise bytes are omitted). Startup does not
count. Efficiency: CPU time per sample of one process of the same kind, divided by that of N. Bytes: sent by one process
per step, on average. Prints: subject, processes, ms of CPU time per sample, efficiency, bytes.
"""
import argparse
import json
import os
import random
import re
import resource
import shutil
import statistics
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MESHFLOW = os.environ.get("MESHFLOW", os.path.join(ROOT, "build", "meshflow"))
PYTHON = os.path.join(ROOT, "build", "venv", "bin", "python")
BATCH = 64


def processor_seconds(command):
    """Of a command and all processes that it started, and its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, out


def ours(n, steps, collective):
    """Processor milliseconds by sample, bytes by process and step."""
    def run(k):
        cpu, out = processor_seconds(
            [MESHFLOW, "launch", "--all-stay", "--workers", str(n), "--json", "--", "train", "--model",
             "fashion-cnn", "--data", "fashion-mnist", "--batch", str(BATCH * n), "--steps", str(k), "--threads",
             "1", "--optimizer", "sgd", "--strategy", "multi_worker_mirrored balance=false collective=" + collective,
             "--no-test", "--quiet", "--json"])
        told = json.loads([x for x in out.splitlines() if x.startswith("{")][-1])
        assert told["workers"] == n and told["steps"] == k
        return cpu, told.get("sent_bytes", 0)
    few, sent_few = run(5)
    many, sent_many = run(5 + steps)
    return (many - few) * 1e3 / (steps * n * BATCH), (sent_many - sent_few) / steps


def tensorflow(n, steps):
    port = random.randrange(20000, 60000)
    cluster = {"worker": ["127.0.0.1:%d" % (port + i) for i in range(n)]}
    apart = os.geteuid() == 0
    # One namespace for all of them: the first command makes it, the others are its children.
    script = "".join("TF_CONFIG='%s' %s %s %d %d & " % (
        json.dumps({"cluster": cluster, "task": {"type": "worker", "index": i}}), PYTHON,
        os.path.join(ROOT, "bench", "peer_tf_ring.py"), BATCH, steps) for i in range(n)) + "wait"
    command = ["unshare", "--net", "sh", "-c", "ip link set lo up; " + script] if apart else ["sh", "-c", script]
    out = subprocess.run(command, capture_output=True, text=True).stdout
    told = [json.loads(x) for x in out.splitlines() if x.startswith("{")]
    assert len(told) == n, "TensorFlow's workers have ended early"
    sent = statistics.mean(t["lo"] for t in told) / steps / n if apart else float("nan")
    return sum(t["cpu"] for t in told) * 1e3 / (steps * n * BATCH), sent


def instructions(threads, steps):
    err = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", MESHFLOW, "train", "--model",
                          "mlp", "--data", "fashion-mnist", "--batch", "128", "--steps", str(steps), "--threads",
                          str(threads), "--no-test", "--quiet"], env={**os.environ, "MESHFLOW_POOL_SPIN_ROUNDS": "0"},
                         capture_output=True, text=True, check=True).stderr
    return int(re.search(r"Collected : (\d+)", err).group(1))


def threads_of_a_process():
    by_step = {n: (instructions(n, 32) - instructions(n, 12)) / 20 for n in (2, 16, 64)}
    for n in (16, 64):
        print("%-18s %9d %14.0f instructions by step, of 2 threads %.0f: ratio %.4f" % (
            "threads", n, by_step[n], by_step[2], by_step[n] / by_step[2]), flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--processes", default="1,2,4,8")
    p.add_argument("--steps", type=int, default=40)
    p.add_argument("--rounds", type=int, default=3)
    a = p.parse_args()
    kinds = {"shared memory": lambda n: ours(n, a.steps, "shared"), "ring": lambda n: ours(n, a.steps, "ring")}
    if os.path.exists(PYTHON):
        kinds["TensorFlow's ring"] = lambda n: tensorflow(n, a.steps)
    else:
        print("# without TensorFlow: there is no build/venv")
    print("# load %s" % open("/proc/loadavg").read().split(" ", 3)[:3])
    print("%-18s %9s %14s %11s %16s" % ("", "processes", "ms by sample", "efficiency", "bytes by step"))
    for name, measure in kinds.items():
        alone = None
        for n in map(int, a.processes.split(",")):
            rows = [measure(n) for _ in range(a.rounds)]
            cpu, sent = statistics.median(r[0] for r in rows), statistics.median(r[1] for r in rows)
            alone = alone or cpu
            print("%-18s %9d %14.3f %11.2f %16.0f" % (name, n, cpu, alone / cpu, sent), flush=True)
    if shutil.which("valgrind"):
        threads_of_a_process()
    else:
        print("# without instruction counts: there is no valgrind")


if __name__ == "__main__":
    main()
