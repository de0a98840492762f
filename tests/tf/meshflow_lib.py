# SPDX-License-Identifier: Apache-2.0
"""libmeshflow through ctypes, as far as the tests need it: run a GraphDef with numpy arrays."""
import ctypes
import os

import numpy as np

_PATH = os.environ.get("MESHFLOW_LIB") or os.path.join(
    os.path.dirname(__file__), "..", "..", "build", "release", "libmeshflow.so.0")
lib = ctypes.CDLL(_PATH)
P = ctypes.c_void_p
lib.mf_error_message.restype = ctypes.c_char_p
lib.mf_status_name.restype = ctypes.c_char_p
lib.mf_tensor_data.restype = P
lib.mf_tensor_data.argtypes = [P]
lib.mf_tensor_dim.restype = ctypes.c_int64
lib.mf_tensor_dim.argtypes = [P, ctypes.c_int]
lib.mf_tensor_count.restype = ctypes.c_int64
lib.mf_tensor_get_string.argtypes = [P, ctypes.c_int64, P, P]
for name in ("mf_tensor_free", "mf_graph_free", "mf_session_free", "mf_tensor_rank",
             "mf_tensor_dtype", "mf_tensor_count"):
    getattr(lib, name).argtypes = [P]

try:
    import ml_dtypes
    _BF16 = ml_dtypes.bfloat16
except ImportError:  # pragma: no cover
    _BF16 = None

NUMPY = {1: np.float32, 2: np.float64, 3: np.int32, 4: np.uint8, 5: np.int16, 6: np.int8,
         8: np.complex64, 9: np.int64, 10: np.bool_, 11: np.int8, 12: np.uint8, 13: np.int32,
         14: _BF16, 15: np.int16, 16: np.uint16, 17: np.uint16, 18: np.complex128, 19: np.float16, 22: np.uint32, 23: np.uint64}
NUMBER = {np.dtype(v): k for k, v in NUMPY.items() if v is not None and k not in (11, 12, 13, 15, 16)}
QUANTIZED = {"qint8": 11, "quint8": 12, "qint32": 13, "qint16": 15, "quint16": 16}  # a field's name
STRING = 7


class Error(Exception):
    """A failed call: .code is TensorFlow's number, .name its name."""

    def __init__(self, status):
        self.code = status
        self.name = lib.mf_status_name(status).decode()
        super().__init__("%s: %s" % (self.name,
                                     lib.mf_error_message().decode("utf-8", "replace")))


def check(status):
    if status != 0:
        raise Error(status)


class SessionOptions(ctypes.Structure):
    _fields_ = [("threads", ctypes.c_int), ("disable", ctypes.c_char_p),
                ("allow_dirs", ctypes.POINTER(ctypes.c_char_p)), ("n_allow_dirs", ctypes.c_int),
                ("target", ctypes.c_char_p), ("connect_ms", ctypes.c_int64),
                ("device_filters", ctypes.POINTER(ctypes.c_char_p)), ("n_device_filters", ctypes.c_int),
                ("allow_soft_placement", ctypes.c_bool), ("tls_dir", ctypes.c_char_p),
                ("insecure_any_peer", ctypes.c_bool)]


class RunOptions(ctypes.Structure):
    _fields_ = [("timeout_ms", ctypes.c_int64), ("trace_path", ctypes.c_char_p)]


def to_tensor(array):
    array = np.asarray(array)
    text = array.dtype.kind in "OSU"
    dims = (ctypes.c_int64 * max(1, array.ndim))(*array.shape)
    out = P()
    number = (STRING if text else QUANTIZED[array.dtype.names[0]] if array.dtype.names else
              NUMBER[array.dtype])
    check(lib.mf_tensor_new(number, dims, array.ndim, ctypes.byref(out)))
    if text:
        for i, s in enumerate(array.reshape(-1)):
            s = s.encode() if isinstance(s, str) else bytes(s)
            check(lib.mf_tensor_set_string(out, ctypes.c_int64(i), s, ctypes.c_size_t(len(s))))
    elif array.size:
        array = np.ascontiguousarray(array)
        ctypes.memmove(lib.mf_tensor_data(out), array.ctypes.data, array.nbytes)
    return out


def from_tensor(t):
    shape = [lib.mf_tensor_dim(t, i) for i in range(lib.mf_tensor_rank(t))]
    number = lib.mf_tensor_dtype(t)
    if number == STRING:
        out = np.empty(shape, dtype=object)
        flat = []
        for i in range(lib.mf_tensor_count(t)):
            raw, size = P(), ctypes.c_size_t()
            check(lib.mf_tensor_get_string(t, i, ctypes.byref(raw), ctypes.byref(size)))
            flat.append(ctypes.string_at(raw, size.value) if size.value else b"")
        out[...] = np.array(flat + [None], dtype=object)[:-1].reshape(shape)
        return out
    out = np.empty(shape, dtype=NUMPY[number])
    if out.size:
        ctypes.memmove(out.ctypes.data, lib.mf_tensor_data(t), out.nbytes)
    return out


DEVICE_FN = ctypes.CFUNCTYPE(None, P, ctypes.c_char_p, ctypes.c_char_p)


def _names(names):
    return (ctypes.c_char_p * max(1, len(names)))(*[n.encode() for n in names])


class Session:
    """A session over a serialised GraphDef; with a target, on the server there."""

    def __init__(self, graph_def, threads=0, disable="", allow_dirs=(), target="", soft=False,
                 connect_ms=0):
        self.session = None
        graph = P()
        check(lib.mf_graph_new(ctypes.byref(graph)))
        try:
            check(lib.mf_graph_decode(graph, graph_def, ctypes.c_size_t(len(graph_def))))
            dirs = _names(list(allow_dirs))
            options = SessionOptions(threads, disable.encode() or None, dirs, len(allow_dirs),
                                     target.encode(), connect_ms, None, 0, soft)
            session = P()
            check(lib.mf_session_new(graph, ctypes.byref(options), ctypes.byref(session)))
            self.session = session
        finally:
            lib.mf_graph_free(graph)

    def run(self, fetches, feeds=None, targets=(), timeout_ms=60000, trace=None):
        feeds = feeds or {}
        tensors = [to_tensor(v) for v in feeds.values()]
        results = (P * max(1, len(fetches)))()
        options = RunOptions(timeout_ms, trace.encode() if trace else None)
        try:
            check(lib.mf_session_run(
                self.session, ctypes.byref(options), _names(list(feeds)),
                (P * max(1, len(tensors)))(*tensors), len(tensors), _names(list(fetches)),
                len(fetches), _names(list(targets)), len(targets), results))
            return [from_tensor(r) for r in results[:len(fetches)]]
        finally:
            for t in tensors:
                lib.mf_tensor_free(t)
            for r in results[:len(fetches)]:
                lib.mf_tensor_free(r)

    def extend(self, graph_def):
        graph = P()
        check(lib.mf_graph_new(ctypes.byref(graph)))
        try:
            check(lib.mf_graph_decode(graph, graph_def, ctypes.c_size_t(len(graph_def))))
            check(lib.mf_session_extend(self.session, graph))
        finally:
            lib.mf_graph_free(graph)

    def devices(self):
        """[(name, type)]"""
        out = []
        each = DEVICE_FN(lambda _, name, kind: out.append((name.decode(), kind.decode())))
        check(lib.mf_session_devices(self.session, each, None))
        return out

    def close(self):
        if self.session:
            lib.mf_session_free(self.session)
            self.session = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        self.close()
