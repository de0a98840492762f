#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A TensorFlow server.

Usage: peer_tf_task.py CLUSTER JOB INDEX      CLUSTER as JSON; prints "ready" when it listens
"""
import json
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import tensorflow as tf  # noqa: E402

server = tf.distribute.Server(json.loads(sys.argv[1]), job_name=sys.argv[2], task_index=int(sys.argv[3]))
print("ready", flush=True)
server.join()
