# SPDX-License-Identifier: Apache-2.0
"""Server: what tf.compat.v1.train.Server (tf.distribute.Server) is, and takes the same arguments."""
import atexit
import ctypes
import json
import os
import threading

from meshflow._library import ServerOptions, check, lib

_running = set()  # as TensorFlow's, a server runs until it is stopped or the process ends, even without references to it


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


class _Running:
    """What runs in this process from start() to stop(): the names of its functions, and how it is made."""

    def __init__(self, kind, config, allow_dirs, tls_dir, insecure_any_peer):
        self._join, self._stop, self._free = (getattr(lib, "mf_%s_%s" % (kind, what)) for what in ("join", "stop", "free"))
        self._threads = _threads(config)
        self._allow_dirs, self._tls_dir, self._insecure = _dirs(allow_dirs), tls_dir, insecure_any_peer
        self._handle = self._ended = None
        self._lock = threading.Lock()

    def _options(self, **more):
        dirs = (ctypes.c_char_p * max(1, len(self._allow_dirs)))(*[str(d).encode() for d in self._allow_dirs])
        return ServerOptions(threads=self._threads, allow_dirs=dirs, n_allow_dirs=len(self._allow_dirs),
                             tls_dir=None if self._tls_dir is None else str(self._tls_dir).encode(),
                             insecure_any_peer=self._insecure, **more)

    def start(self):
        """Listen. What runs is left as it is."""
        with self._lock:
            if self._handle:
                return
            handle = ctypes.c_void_p()
            self._make(handle)
            self._handle = handle
            self._ended = threading.Thread(target=self._join, args=(handle,), daemon=True)
            self._ended.start()
            _running.add(self)

    def join(self):
        """Wait until it is stopped. (A signal is noticed meanwhile.)"""
        if self._ended is None:
            raise RuntimeError("it does not run: call start() first")
        while self._ended.is_alive():
            self._ended.join(0.2)

    def stop(self):
        """End all steps and free the ports. What does not run stays as it is."""
        with self._lock:
            handle, self._handle = self._handle, None
            if handle is None:
                return
            self._stop(handle)
            self._ended.join()
            self._free(handle)
            _running.discard(self)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()


class Server(_Running):
    """One task of a cluster, in this process.

    server_or_cluster_def, job_name, task_index, protocol, config and start are those of tf.compat.v1.train.Server.
    allow_dirs: folders in which graphs may read and write files (default: those of MESHFLOW_ALLOW_DIR, separated by
    ':'). tls_dir: certificates that `meshflow cert` made. insecure_any_peer: accept other hosts without
    certificates."""

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
        super().__init__("server", config, allow_dirs, tls_dir, insecure_any_peer)
        self._cluster = _cluster(spec)
        self._job, self._index = job_name, task_index
        self._target = None
        if start:
            self.start()

    @staticmethod
    def create_local_server(config=None, start=True):
        """A cluster of this process alone, at any free port of the loopback."""
        return Server({"localhost": ["localhost:0"]}, protocol="grpc", config=config, start=start)

    def _make(self, handle):
        options = self._options(cluster=json.dumps(self._cluster).encode(),
                                job_name=None if self._job is None else _text(self._job).encode(),
                                task_index=None if self._index is None else str(int(self._index)).encode())
        check(lib.mf_server_new(ctypes.byref(options), ctypes.byref(handle)))
        self._target = lib.mf_server_target(handle).decode()

    @property
    def target(self):
        """"grpc://host:port", for tf.compat.v1.Session()."""
        if self._target is None:
            raise RuntimeError("the server has no target yet: call start() first")
        return self._target


class LocalCluster(_Running):
    """Several tasks in this process: see local_cluster()."""

    def __init__(self, jobs, config=None, allow_dirs=None, tls_dir=None, insecure_any_peer=False):
        super().__init__("local_cluster", config, allow_dirs, tls_dir, insecure_any_peer)
        self._jobs = ",".join("%s=%d" % (job, n) for job, n in jobs.items() if n)
        self.spec = None  # {job: ["host:port", ...]}, for tf.train.ClusterSpec()
        self.start()

    def _make(self, handle):
        check(lib.mf_local_cluster_new(self._jobs.encode(), ctypes.byref(self._options()), ctypes.byref(handle)))
        self.spec = json.loads(lib.mf_local_cluster_spec(handle))

    def target(self, job="worker", index=0):
        """"grpc://host:port", for tf.compat.v1.Session()."""
        return "grpc://" + self.spec[job][index]


def local_cluster(config=None, allow_dirs=None, **jobs):
    """A whole cluster in this process, at free ports of the loopback:

        with meshflow.local_cluster(worker=2, ps=1) as cluster:
            with tf.compat.v1.Session(cluster.target("worker", 0)) as sess:"""
    return LocalCluster(jobs, config, allow_dirs)


class _LocalTask:
    """What tf.test.create_local_cluster() gives for a task; all of them end together."""

    def __init__(self, cluster, job, index):
        self._cluster, self.target = cluster, cluster.target(job, index)
        self.join, self.stop = cluster.join, cluster.stop


def create_local_cluster(num_workers, num_ps, protocol="grpc", worker_config=None, ps_config=None):
    """tf.test.create_local_cluster(): (workers, parameter servers), each with a `target`."""
    if protocol != "grpc":
        raise ValueError("protocol %r: a server speaks grpc" % protocol)
    cluster = local_cluster(worker_config or ps_config, worker=num_workers, ps=num_ps)
    return tuple([_LocalTask(cluster, job, i) for i in range(n)] for job, n in (("worker", num_workers), ("ps", num_ps)))
