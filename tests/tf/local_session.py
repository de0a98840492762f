# SPDX-License-Identifier: Apache-2.0
"""Runs a client program with tf.compat.v1.Session on libmeshflow, in this process or, through libmeshflow, on the servers
that the program names: the graph is passed as a GraphDef and extended by mf_session_extend(), and errors are returned
as tf.errors.

Usage: local_session.py --serve    a line of JSON each, [HOW, PROGRAM, TARGET, CLUSTER, SCRATCH]: runs it
                                   in a child process, replies with its status. Importing TensorFlow takes
                                   longer than most programs. HOW: the kind of sessions, "here" (Meshflow's, in
                                   this process), "remote" (Meshflow's) or "theirs" (TensorFlow's).
       local_session.py --tasks    a line of JSON each, {"cluster": {job: [address, ...]}, "tasks": [[job, index], ...]}:
                                   replies when a TensorFlow server runs for each of these tasks and
                                   earlier ones have ended; or
                                   [job, index]: ends that one."""
import json
import os
import runpy
import signal
import sys
import traceback

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import numpy as np  # noqa: E402
from tensorflow.core.protobuf import config_pb2  # noqa: E402
from tensorflow.python.client import pywrap_tf_session as tf_session  # noqa: E402
from tensorflow.python.client import session  # noqa: E402
from tensorflow.python.framework import errors_impl  # noqa: E402

import meshflow_lib as mf  # noqa: E402

class Engine:
    """The session behind one tf.compat.v1.Session."""

    def __init__(self, graph, allow_dirs=(), **options):
        self.graph, self.version, self.session = graph, -1, None
        self.allow_dirs, self.options = allow_dirs, options

    def extend(self):
        if self.graph.version == self.version:
            return
        whole = self.graph.as_graph_def(add_shapes=False)
        if self.session is None:
            self.session = mf.Session(whole.SerializeToString(), allow_dirs=self.allow_dirs,
                                      **self.options)
        else:
            self.session.extend(whole.SerializeToString())
        self.version = self.graph.version

    def run(self, fetches, feeds, targets, timeout_ms):
        self.extend()
        return self.session.run(fetches, feeds, targets, timeout_ms=timeout_ms)

    def close(self):
        if self.session:
            self.session.close()
            self.session = None


class Local(session.BaseSession):
    """A session of ours beside TensorFlow's own."""

    def __init__(self, graph, allow_dirs=()):
        base_init(self, "", graph)
        self._engine, self._timeout = Engine(graph, allow_dirs), 0

    def close(self):
        close(self)

    def _do_run(self, *args):
        return do_run(self, *args)

    def _extend_graph(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def fail(graph, e):
    text = str(e)
    name = text.rpartition("{{node ")[2].partition("}")[0] if "{{node " in text else None
    op = None
    if name:
        try:
            op = graph.get_operation_by_name(name)
        except KeyError:
            pass
    cls = errors_impl.exception_type_from_error_code(e.code)
    raise cls(op.node_def if op else None, op, text) from None


how = "theirs"
base_init, base_close = session.BaseSession.__init__, session.BaseSession.close


def init(self, target="", graph=None, config=None):
    base_init(self, "", graph, config)
    self._timeout = config.operation_timeout_in_ms if config else 0
    self._engine = Engine(self._graph, sys.argv[3:4], target=target if how == "remote" else "",
                          connect_ms=self._timeout, soft=bool(config and config.allow_soft_placement))


def close(self):
    if getattr(self, "_engine", None):
        self._engine.close()
    base_close(self)


def do_run(self, handle, target_list, fetch_list, feed_dict, options, run_metadata):
    if handle is not None:
        raise NotImplementedError("partial runs")
    feeds = {t.deref().name: np.asarray(v) for t, v in feed_dict.items()}
    timeout = self._timeout
    if options:
        given = config_pb2.RunOptions.FromString(tf_session.TF_GetBuffer(options))
        timeout = given.timeout_in_ms or timeout
    try:
        out = self._engine.run([t.name for t in fetch_list], feeds, [o.name for o in target_list],
                               timeout or 60000)
    except mf.Error as e:
        fail(self._graph, e)
    # TensorFlow's own sessions give scalars as numpy scalars, scalar strings as bytes.
    return [x[()] if x.ndim == 0 else x for x in out]


def list_devices(self):
    self._engine.extend()
    return [session._DeviceAttributes(name, kind, 0, 0)
            for name, kind in self._engine.session.devices()]


def make_callable(self, fetches, feed_list=None, accept_options=False):
    return lambda *feeds, **_: self.run(fetches, dict(zip(feed_list or [], feeds)))


def take_place():
    session.BaseSession.make_callable = make_callable
    session.BaseSession.list_devices = list_devices
    session.BaseSession.__init__ = init
    session.BaseSession.close = close
    session.BaseSession._do_run = do_run
    session.BaseSession._extend_graph = lambda self: None


def run(argv):
    global how
    how, argv = argv[0], argv[1:]
    program = os.path.abspath(argv[0])
    if how != "theirs":
        take_place()
    sys.argv = argv
    sys.path.insert(0, os.path.dirname(program))
    runpy.run_path(program, run_name="__main__")


def child(argv):
    """Does not return. The program's output is written to files in its scratch folder."""
    status = 1
    try:
        for fd, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(os.path.join(argv[4], name), os.O_WRONLY | os.O_CREAT), fd)
        run(argv)
        status = 0
    except BaseException:  # pylint: disable=broad-except
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def serve():
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            child(json.loads(line))
        status = os.waitpid(pid, 0)[1]
        print(json.dumps([pid, os.waitstatus_to_exitcode(status)]), flush=True)


def serve_task(cluster, job, index, ready):
    """Never returns."""
    import tensorflow as tf
    try:
        config = tf.compat.v1.ConfigProto()
        if len(cluster.get("worker", [])) > 1:  # TensorFlow reads it at startup
            config.experimental.collective_group_leader = "/job:worker/replica:0/task:0"
        server = tf.distribute.Server(cluster, job_name=job, task_index=index, config=config)
        os.write(ready, b"1")
        server.join()
    finally:
        os._exit(1)


def end(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def start_tasks(cluster, tasks):
    """{(job, index): pid}, when all of them listen."""
    running, (ready, told) = {}, os.pipe()
    for job, index in tasks:
        pid = os.fork()
        if pid == 0:
            serve_task(cluster, job, index, told)
        running[job, index] = pid
    for _ in running:
        os.read(ready, 1)
    return running


def serve_tasks():
    running = {}
    for line in sys.stdin:
        asked = json.loads(line)
        if isinstance(asked, list):
            end(running.pop(tuple(asked)))
        else:
            for pid in running.values():
                end(pid)
            running = start_tasks(asked["cluster"], asked["tasks"])
        print("ready", flush=True)


if __name__ == "__main__":
    serve_tasks() if sys.argv[1] == "--tasks" else serve()
