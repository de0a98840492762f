# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's parameter server, as a peer of servers.py: reads a number of bytes per line, prints seconds (median,
best tenth).

The server is a separate process with the variable; the worker sends its gradient, which is applied, and fetches the
new value.
"""
import json
import multiprocessing
import os
import socket
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def serve(cluster):
    import tensorflow as tf
    tf.distribute.Server(json.loads(cluster), job_name="ps", task_index=0).join()


def make_step(tf, target, size):
    v1 = tf.compat.v1
    graph = v1.Graph()
    with graph.as_default():
        with tf.device("/job:ps/task:0"):
            w = v1.get_variable("w", [size // 4], initializer=v1.zeros_initializer(), use_resource=True)
        with tf.device("/job:worker/task:0"):
            g = v1.get_variable("g", [size // 4], initializer=v1.zeros_initializer(), use_resource=True,
                                trainable=False).read_value()
        with tf.device("/job:ps/task:0"):
            push = tf.raw_ops.ResourceApplyGradientDescent(var=w.handle, alpha=0.01, delta=g)
            with tf.control_dependencies([push]):
                new = w.read_value()
        with tf.device("/job:worker/task:0"):
            pulled = tf.identity(new)
        init = v1.global_variables_initializer()
    session = v1.Session(target, graph=graph)
    session.run(init)
    return session.make_callable(pulled.op)


def measure(step, size):
    n = max(8, min(400, (512 << 20) // size))
    for _ in range(3):
        step()
    times = []
    for _ in range(n):
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    times.sort()
    return times[n // 2], times[n // 10]


def main():
    cluster = json.dumps({job: ["127.0.0.1:%d" % free_port()] for job in ("ps", "worker")})
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(cluster,), daemon=True)
    server.start()
    import tensorflow as tf
    worker = tf.distribute.Server(json.loads(cluster), job_name="worker", task_index=0)
    steps = {}
    for line in sys.stdin:
        size = int(line)
        if size not in steps:
            steps[size] = make_step(tf, worker.target, size)
        print("%.9f %.9f" % measure(steps[size], size), flush=True)
    server.kill()


if __name__ == "__main__":
    main()
