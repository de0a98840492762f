# SPDX-License-Identifier: Apache-2.0
"""Runs a client program with tf.compat.v1.Session on libmeshflow, in this process: the graph goes over
as a GraphDef, grows through mf_session_extend(), and errors come back as tf.errors.

Usage: local_session.py PROGRAM TARGET CLUSTER SCRATCH
       local_session.py --serve    a line of JSON each, [PROGRAM, TARGET, CLUSTER, SCRATCH]: runs it in
                                   a child, answers with its status. Importing TensorFlow takes longer
                                   than most programs."""
import ctypes
import json
import os
import runpy
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

NOBODY = "grpc://127.0.0.1:1"  # a program that is given this target gets our sessions, else TensorFlow's


def decode(graph_def):
    graph = ctypes.c_void_p()
    mf.check(mf.lib.mf_graph_new(ctypes.byref(graph)))
    data = graph_def.SerializeToString()
    try:
        mf.check(mf.lib.mf_graph_decode(graph, data, ctypes.c_size_t(len(data))))
    except mf.Error:
        mf.lib.mf_graph_free(graph)
        raise
    return graph


class Engine:
    """The session behind one tf.compat.v1.Session."""

    def __init__(self, graph, allow_dirs=()):
        self.graph, self.version, self.session, self.allow_dirs = graph, -1, None, allow_dirs

    def extend(self):
        if self.graph.version == self.version:
            return
        whole = self.graph.as_graph_def(add_shapes=False)
        if self.session is None:
            self.session = mf.Session(whole.SerializeToString(), allow_dirs=self.allow_dirs)
        else:
            graph = decode(whole)  # nodes the session has already are left out
            try:
                mf.check(mf.lib.mf_session_extend(self.session.session, graph))
            finally:
                mf.lib.mf_graph_free(graph)
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


base_init, base_close = session.BaseSession.__init__, session.BaseSession.close


def init(self, target="", graph=None, config=None):
    base_init(self, "", graph, config)
    self._engine = Engine(self._graph, sys.argv[3:4])
    self._timeout = config.operation_timeout_in_ms if config else 0


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


def take_place():
    session.BaseSession.__init__ = init
    session.BaseSession.close = close
    session.BaseSession._do_run = do_run
    session.BaseSession._extend_graph = lambda self: None


def run(argv):
    program = os.path.abspath(argv[0])
    if argv[1] == NOBODY:
        take_place()
    sys.argv = argv
    sys.path.insert(0, os.path.dirname(program))
    runpy.run_path(program, run_name="__main__")


def child(argv):
    """Never returns. What the program prints goes to files in its scratch folder."""
    status = 1
    try:
        for fd, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(os.path.join(argv[3], name), os.O_WRONLY | os.O_CREAT), fd)
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


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve()
    else:
        run(sys.argv[1:])
