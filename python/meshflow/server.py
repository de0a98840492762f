# SPDX-License-Identifier: Apache-2.0
"""Server: what tf.compat.v1.train.Server (tf.distribute.Server) is, and takes the same arguments."""
import atexit
import ctypes
import json
import os
import threading

from meshflow._library import ServerOptions, check, lib

_running = set()  # as TensorFlow's, a server runs until it is stopped or the process ends, whoever forgets it


@atexit.register
def _stop_all():
    for server in list(_running):
        server.stop()


def _text(value):
    return value.decode() if isinstance(value, bytes) else str(value)


def _tasks(tasks):
    """["host:port"], {index: "host:port"} or one "host:port", for JSON."""
    if isinstance(tasks, (str, bytes)):
        return [_text(tasks)]
    if hasattr(tasks, "items"):
        return {str(int(i)): _text(a) for i, a in tasks.items()}
    return [_text(a) for a in tasks]


def _cluster(spec):
    """{job: tasks} of a dict, a ClusterSpec (as_dict) or a ClusterDef (job, each with name and tasks)."""
    if hasattr(spec, "as_dict"):
        spec = spec.as_dict()
    elif hasattr(spec, "job") and not hasattr(spec, "items"):
        spec = {job.name: dict(job.tasks) for job in spec.job}
    if not hasattr(spec, "items"):
        raise TypeError("a cluster is a dict {job: [\"host:port\", ...]}, a ClusterSpec, a ClusterDef or a ServerDef, "
                        "not %r" % type(spec).__name__)
    return {_text(job): _tasks(tasks) for job, tasks in spec.items()}


def _threads(config):
    """What a ConfigProto says that means something here."""
    return max(int(getattr(config, "intra_op_parallelism_threads", 0) or 0), 0)


def _dirs(given):
    """A program whose import alone is changed cannot name them."""
    if given is None:
        given = [d for d in os.environ.get("MESHFLOW_ALLOW_DIR", "").split(os.pathsep) if d]
    return list(given)


class Server:
    """One task of a cluster, in this process.

    server_or_cluster_def, job_name, task_index, protocol, config and start are as tf.compat.v1.train.Server takes
    them; the others are what <meshflow/server.h> has more: folders that graphs may read and write files in (unless
    told, those of MESHFLOW_ALLOW_DIR, with ':' between them), certificates as `meshflow cert` makes them, and whether
    to do without between hosts."""

    def __init__(self, server_or_cluster_def, job_name=None, task_index=None, protocol=None, config=None,
                 start=True, *, allow_dirs=None, tls_dir=None, insecure_any_peer=False):
        spec = server_or_cluster_def
        if hasattr(spec, "cluster"):  # a ServerDef
            job_name = spec.job_name if job_name is None else job_name
            task_index = spec.task_index if task_index is None else task_index
            protocol = protocol or spec.protocol or None
            config = config or spec.default_session_config
            spec = spec.cluster
        if protocol not in (None, "grpc"):
            raise ValueError("protocol %r: a server speaks grpc" % protocol)
        self._cluster = _cluster(spec)
        self._job, self._index = job_name, task_index
        self._threads = _threads(config)
        self._allow_dirs, self._tls_dir, self._insecure = _dirs(allow_dirs), tls_dir, insecure_any_peer
        self._server = self._target = self._ended = None
        self._lock = threading.Lock()
        if start:
            self.start()

    @staticmethod
    def create_local_server(config=None, start=True):
        """A cluster of this process alone, at any free port of the loopback."""
        return Server({"localhost": ["localhost:0"]}, protocol="grpc", config=config, start=start)

    def start(self):
        """Listen. A server that runs is left as it is."""
        with self._lock:
            if self._server:
                return
            dirs = (ctypes.c_char_p * max(1, len(self._allow_dirs)))(*[str(d).encode() for d in self._allow_dirs])
            options = ServerOptions(
                cluster=json.dumps(self._cluster).encode(),
                job_name=None if self._job is None else _text(self._job).encode(),
                task_index=None if self._index is None else str(int(self._index)).encode(),
                threads=self._threads, allow_dirs=dirs, n_allow_dirs=len(self._allow_dirs),
                tls_dir=None if self._tls_dir is None else str(self._tls_dir).encode(),
                insecure_any_peer=self._insecure)
            server = ctypes.c_void_p()
            check(lib.mf_server_new(ctypes.byref(options), ctypes.byref(server)))
            self._target = lib.mf_server_target(server).decode()
            self._server = server
            self._ended = threading.Thread(target=lib.mf_server_join, args=(server,), daemon=True)
            self._ended.start()
            _running.add(self)

    @property
    def target(self):
        """"grpc://host:port", for tf.compat.v1.Session()."""
        if self._target is None:
            raise RuntimeError("the server has no target yet: call start() first")
        return self._target

    def join(self):
        """Wait until the server is stopped. (A signal is noticed meanwhile.)"""
        if self._ended is None:
            raise RuntimeError("the server does not run: call start() first")
        while self._ended.is_alive():
            self._ended.join(0.2)

    def stop(self):
        """End all steps and free the port. A server that does not run stays as it is."""
        with self._lock:
            server, self._server = self._server, None
            if server is None:
                return
            lib.mf_server_stop(server)
            self._ended.join()
            lib.mf_server_free(server)
            _running.discard(self)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
