# SPDX-License-Identifier: Apache-2.0
"""Meshflow's server for programs that are written for TensorFlow's.

    from meshflow import Server                       # was: from tensorflow.compat.v1.train import Server

    server = Server({"local": ["localhost:2222"]}, job_name="local", task_index=0)
    with tf.compat.v1.Session(server.target) as sess:
        ...

There is nothing to compile and TensorFlow is not needed: it is libmeshflow through ctypes."""
from meshflow._library import Error, version
from meshflow.server import LocalCluster, Server, create_local_cluster, local_cluster

__all__ = ["Error", "LocalCluster", "Server", "create_local_cluster", "local_cluster", "__version__"]
__version__ = version()
