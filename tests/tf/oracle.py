# SPDX-License-Identifier: Apache-2.0
"""The same GraphDef and feeds through TensorFlow and through Meshflow, and how answers are compared."""
import os
import re

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import meshflow_lib as mf  # noqa: E402

v1 = tf.compat.v1
v1.disable_v2_behavior()

# No rewriting on TensorFlow's side: its kernels are the oracle, its optimizer is not.
CONFIG = v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
CONFIG.graph_options.rewrite_options.disable_meta_optimizer = True
CONFIG.graph_options.optimizer_options.opt_level = -1

# |a - b| <= tolerance * max(|b|, floor): relative to the magnitude, with a floor for the remainder after
# cancellation: a part of the largest |b| of the tensor (and of 1), more where many terms are added up.
FLOOR = {np.dtype(np.float16): 0.5, np.dtype(ml_dtypes.bfloat16): 0.5}
TOLERANCE = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-5,
             np.dtype(np.float16): 2e-3, np.dtype(ml_dtypes.bfloat16): 2e-2,
             np.dtype(np.complex128): 1e-12, np.dtype(np.complex64): 1e-5}


class Failure:
    """A run that failed: the status by TensorFlow's name, and the message."""

    def __init__(self, name, message):
        self.name, self.message = name, message

    def __repr__(self):
        return "%s: %s" % (self.name, self.message.removeprefix(self.name + ": ")[:300])


NAMES = {1: "CANCELLED", 2: "UNKNOWN", 3: "INVALID_ARGUMENT", 4: "DEADLINE_EXCEEDED",
         5: "NOT_FOUND", 6: "ALREADY_EXISTS", 7: "PERMISSION_DENIED", 8: "RESOURCE_EXHAUSTED",
         9: "FAILED_PRECONDITION", 10: "ABORTED", 11: "OUT_OF_RANGE", 12: "UNIMPLEMENTED",
         13: "INTERNAL", 14: "UNAVAILABLE", 15: "DATA_LOSS", 16: "UNAUTHENTICATED"}


NO_KERNEL = re.compile(r"No OpKernel was registered|not supported on CPU|only NHWC|No WhereOp available|"
                       r"only supports? (the )?NHWC|TileOp : The input data type is not supported")


def no_kernel(failure):
    """TensorFlow was built without this op for this type on the CPU."""
    return isinstance(failure, Failure) and NO_KERNEL.search(failure.message) is not None


def tf_graph(graph_def):
    """A tf.Graph holding graph_def, or the Failure of importing it."""
    g = tf.Graph()
    try:
        with g.as_default():
            tf.import_graph_def(graph_def, name="")
    except ValueError as e:
        return Failure("INVALID_ARGUMENT", str(e).split("\n")[0])
    except tf.errors.OpError as e:
        return Failure(NAMES.get(e.error_code, "?"), " ".join(e.message.split()))
    return g


def _array(x):
    if isinstance(x, (bytes, str)):  # numpy's own strings lose zeros at their end
        out = np.empty((), object)
        out[()] = x
        return out
    x = np.asarray(x)
    return x[x.dtype.names[0]] if x.dtype.names else x  # quantized: a struct of one integer


def run_tf(graph, steps):
    """steps: [(fetches, feeds, targets)], one session. The results of each, or the first Failure."""
    if isinstance(graph, Failure):
        return graph
    try:
        with v1.Session(graph=graph, config=CONFIG) as s:
            out = []
            for fetches, feeds, targets in steps:
                r = s.run([list(fetches), list(targets)], feeds,
                          options=v1.RunOptions(timeout_in_ms=60000))
                out.append([_array(x) for x in r[0]])
            return out
    except tf.errors.OpError as e:
        return Failure(NAMES.get(e.error_code, "?"), " ".join(e.message.split()))
    except (TypeError, ValueError, NotImplementedError) as e:
        return Failure("INVALID_ARGUMENT", str(e).split("\n")[0])


def run_mf(graph_bytes, steps, **options):
    try:
        with mf.Session(graph_bytes, **options) as s:
            return [s.run(list(fetches), feeds, targets) for fetches, feeds, targets in steps]
    except mf.Error as e:
        return Failure(e.name, str(e))


def close(ours, theirs, tolerance=None, terms=1, loosen=1.0):
    """"" when equal within tolerance, else what differs. terms: about how many numbers are added up
    for one element."""
    if isinstance(theirs, Failure) or isinstance(ours, Failure):
        return "" if type(ours) is type(theirs) else "%r, TensorFlow: %r" % (ours, theirs)
    theirs = np.asarray(theirs)
    if ours.shape != theirs.shape:
        return "shape %s, TensorFlow has %s" % (ours.shape, theirs.shape)
    if theirs.dtype.kind in "OSU":
        bad = np.flatnonzero(np.array(
            [_bytes(a) != _bytes(b) for a, b in zip(ours.reshape(-1), theirs.reshape(-1))], bool))
        return _where(bad, ours, theirs)
    if ours.dtype != theirs.dtype:
        return "type %s, TensorFlow has %s" % (ours.dtype, theirs.dtype)
    if ours.tobytes() == theirs.tobytes():
        return ""
    if theirs.dtype not in TOLERANCE:
        return _where(np.flatnonzero(ours.reshape(-1) != theirs.reshape(-1)), ours, theirs)
    a, b = wide(ours).reshape(-1), wide(theirs).reshape(-1)
    tol = max(tolerance or 0, TOLERANCE[theirs.dtype]) * loosen
    floor = max(FLOOR.get(theirs.dtype, 0.02), 0.5 * np.sqrt(terms) if terms >= 8 else 0)
    if np.iscomplexobj(a):
        # An infinite or undefined part makes a complex number that; which part is a convention.
        good = np.where(np.isfinite(b), _near(a, b, tol, floor), ~np.isfinite(a))
    else:
        good = _near(a, b, tol, floor)
    return _where(np.flatnonzero(~good), ours, theirs)


def _near(a, b, tol, floor):
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.isfinite(b)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        largest = np.max(np.abs(b[finite]), initial=1.0)
        return same | (finite & (np.abs(a - b) <= tol * np.maximum(floor * largest, np.abs(b))))


def wide(x):
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _bytes(x):
    return x.encode() if isinstance(x, str) else bytes(x)


def _where(bad, ours, theirs):
    if len(bad) == 0:
        return ""
    i = bad[0]
    return "%d of %d elements differ; element %d is %r, TensorFlow has %r" % (
        len(bad), ours.size, i, ours.reshape(-1)[i], theirs.reshape(-1)[i])
