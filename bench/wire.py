#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our servers against TensorFlow's, with TensorFlow's own client: a step that does nothing on one task, and on
a worker and a parameter server; weights pulled and gradients pushed; rows of a large table pulled and pushed.
One row each: subject, size, ours, TensorFlow, ratio (above 1: we are better).

Usage: build/venv/bin/python bench/wire.py [--rounds 5] [--table 1073741824]

Both clusters run all the time; rounds alternate between them, medians are compared.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "build", "release", "meshflow")
SECONDS = 1.0  # of a round


def free_cluster():
    sockets = {job: socket.create_server(("127.0.0.1", 0)) for job in ("ps", "worker")}
    cluster = {job: ["127.0.0.1:%d" % s.getsockname()[1]] for job, s in sockets.items()}
    for s in sockets.values():
        s.close()
    return cluster


class Cluster:
    def __init__(self, name, command):
        self.name, self.cluster = name, free_cluster()
        self.tasks = [subprocess.Popen(command(json.dumps(self.cluster), job), stdout=subprocess.PIPE, text=True)
                      for job in self.cluster]
        for t in self.tasks:
            t.stdout.readline()

    def session(self, job="worker"):
        return tf.Session("grpc://" + self.cluster[job][0])

    def stop(self):
        for t in self.tasks:
            t.kill()
            t.wait()


def ours(cluster, job):
    return [PROGRAM, "server", "--cluster", cluster, "--job_name", job, "--task_index", "0"]


def theirs(cluster, job):
    return [sys.executable, os.path.join(HERE, "peer_tf_task.py"), cluster, job, "0"]


def time_of(step):
    """Seconds of a step."""
    times, end = [], time.perf_counter() + SECONDS
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


# ---- operations ----

def null_one(cluster):
    with tf.Graph().as_default():
        op, s = tf.no_op(), cluster.session()
    return s, lambda: s.run(op)


def null_two(cluster):
    with tf.Graph().as_default():
        with tf.device("/job:ps"):
            op = tf.no_op()
        s = cluster.session()
    return s, lambda: s.run(op)


def push_pull(size):
    def make(cluster):
        with tf.Graph().as_default():
            with tf.device("/job:ps"):
                w = tf.get_variable("w%d" % size, initializer=tf.zeros([size // 4]), use_resource=True)
            with tf.device("/job:worker"):
                g = w.read_value() * 0.5
            with tf.device("/job:ps"):
                op = w.assign_sub(g, read_value=False)
            s, init = cluster.session(), tf.global_variables_initializer()
        s.run(init)
        return s, lambda: s.run(op)
    return make


def sparse(size):
    def make(cluster):
        rows = np.random.RandomState(1).choice(size // 512, 1000, replace=False)
        with tf.Graph().as_default():
            with tf.device("/job:ps"):
                table = tf.get_variable("t%d" % size, shape=[size // 512, 128], initializer=tf.zeros_initializer(),
                                        use_resource=True)
                got = tf.gather(table, tf.constant(rows))
            with tf.device("/job:worker"):
                g = got * 0.5
            with tf.device("/job:ps"):
                op = tf.raw_ops.ResourceScatterSub(resource=table.handle, indices=tf.constant(rows), updates=g)
            s = cluster.session()
            s.run(tf.global_variables_initializer())
        return s, lambda: s.run(op)
    return make


def compare(subject, size, make, clusters, rounds):
    made = [make(c) for c in clusters]
    times = [[], []]
    for _, step in made:
        for _ in range(3):
            step()
    for _ in range(rounds):
        for i, (_, step) in enumerate(made):
            times[i].append(time_of(step))
    for s, _ in made:
        s.close()
    a, b = (statistics.median(t) for t in times)
    print("%-28s %11s %9.3f ms %9.3f ms %7.2f" % (subject, size or "", a * 1e3, b * 1e3, b / a), flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--table", type=int, default=1 << 30)
    args = p.parse_args()
    tf.disable_v2_behavior()
    clusters = [Cluster("ours", ours), Cluster("TensorFlow", theirs)]
    print("# load %s" % " ".join("%.2f" % x for x in os.getloadavg()))
    print("%-28s %11s %12s %12s %7s" % ("subject", "bytes", "ours", "TensorFlow", "ratio"))
    try:
        compare("null step, one task", 0, null_one, clusters, args.rounds)
        compare("null step, worker and ps", 0, null_two, clusters, args.rounds)
        for size in (4096, 4 << 20, 64 << 20):
            compare("pull and push", size, push_pull(size), clusters, args.rounds)
        compare("1000 rows of 512 bytes of", args.table, sparse(args.table), clusters, args.rounds)
    finally:
        for c in clusters:
            c.stop()


if __name__ == "__main__":
    main()
