#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Startup time of a graph with many variables, in Meshflow and in TensorFlow's session.

Usage: variables.py [N]                       with the python of build/venv; default: 1000 variables

Both run the same file, which build/release/bench/variables writes: variables are initialized, then a first step updates
all of them. Milliseconds, medians of three; the last column is Meshflow's time divided by TensorFlow's.
"""
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
N = sys.argv[1] if len(sys.argv) > 1 else "1000"


def by_tensorflow(path):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf
    v1 = tf.compat.v1
    with open(path, "rb") as f:
        graph = v1.GraphDef.FromString(f.read())
    times = []
    for _ in range(3):
        with tf.Graph().as_default():
            tf.import_graph_def(graph, name="")
            begin = time.monotonic()
            with v1.Session() as session:
                session.run("init")
                session.run("train")
                times.append(1e3 * (time.monotonic() - begin))
    return statistics.median(times)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "graph.pb")
    line = subprocess.run([os.path.join(ROOT, "build/release/bench/variables"), N, path], check=True,
                          capture_output=True, text=True).stdout
    ours = float(line.split()[-2])
    theirs = by_tensorflow(path)
    print(line, end="")
    print("variables %6s   set and first step %8.1f ms   TensorFlow's session %8.1f ms   %.2f" %
          (N, ours, theirs, ours / theirs))
