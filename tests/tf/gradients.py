# SPDX-License-Identifier: Apache-2.0
"""Our symbolic gradients against tf.gradients, on the samples of every op that has one."""
import ctypes

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

import cases
import differential
import meshflow_lib as mf
import oracle


class Output(ctypes.Structure):
    _fields_ = [("node", ctypes.c_void_p), ("port", ctypes.c_int)]


mf.lib.mf_graph_find.restype = ctypes.c_void_p
mf.lib.mf_graph_find.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
mf.lib.mf_node_name.restype = ctypes.c_char_p
mf.lib.mf_node_name.argtypes = [ctypes.c_void_p]
mf.lib.mf_bytes_free.argtypes = [ctypes.c_void_p]


def _outputs(graph, names):
    out = (Output * max(1, len(names)))()
    for i, name in enumerate(names):
        node, _, port = name.partition(":")
        out[i] = Output(mf.lib.mf_graph_find(graph, node.encode()), int(port or 0))
    return out


def ours(graph_bytes, ys, xs, dys):
    """The graph with gradients as bytes, and the name of each gradient (or None)."""
    graph = ctypes.c_void_p()
    mf.check(mf.lib.mf_graph_new(ctypes.byref(graph)))
    try:
        mf.check(mf.lib.mf_graph_decode(graph, graph_bytes, ctypes.c_size_t(len(graph_bytes))))
        dxs = (Output * max(1, len(xs)))()
        mf.check(mf.lib.mf_gradients(graph, _outputs(graph, ys), len(ys), _outputs(graph, xs),
                                     len(xs), _outputs(graph, dys), dxs))
        data, size = ctypes.c_void_p(), ctypes.c_size_t()
        mf.check(mf.lib.mf_graph_encode(graph, ctypes.byref(data), ctypes.byref(size)))
        text = ctypes.string_at(data, size.value)
        mf.lib.mf_bytes_free(data)
        names = ["%s:%d" % (mf.lib.mf_node_name(d.node).decode(), d.port) if d.node else None
                 for d in dxs[:len(xs)]]
        return text, names
    finally:
        mf.lib.mf_graph_free(graph)


def theirs(graph, ys, xs, dys):
    """The same with tf.gradients: tensors or None. Failure UNIMPLEMENTED where TF has none."""
    with graph.as_default():
        try:
            dxs = tf.gradients([graph.get_tensor_by_name(y) for y in ys],
                               [graph.get_tensor_by_name(x) for x in xs],
                               [graph.get_tensor_by_name(d) for d in dys])
            return [None if d is None else tf.convert_to_tensor(d) for d in dxs]
        except LookupError as e:
            return oracle.Failure("UNIMPLEMENTED", str(e))
        except (ValueError, TypeError, NotImplementedError) as e:
            return oracle.Failure("INVALID_ARGUMENT", str(e).split("\n")[0])


def differentiable(t):
    return t in cases.FLOATS or t in cases.COMPLEX


def check_case(case, rng, report, say):
    """Without the shapes of inputs in the graph; with them where TensorFlow insists."""
    values = [i.draw(rng) for i in case.inputs]
    if not check_built(case, cases.Built(case, values, False), rng, report, say):
        if not check_built(case, cases.Built(case, values, True), rng, report, say):
            report.not_compared += 1  # TensorFlow's Python cannot build it: int64 axes


def check_built(case, built, rng, report, say):
    """False when TensorFlow cannot build the graph or its gradient."""
    first = oracle.tf_graph(built.graph)
    if isinstance(first, oracle.Failure):
        return False
    text = case.text()
    xs = ["in%d:0" % i for i, spec in enumerate(case.inputs)
          if differentiable(spec.dtype) and not _is_ref(case, i)]
    ports = [i for i, t in enumerate(built.types) if differentiable(t)]
    if not xs or not ports:
        return True
    say("tensorflow")
    todo = differential.steps(built)
    forward = oracle.run_tf(first, todo)
    if isinstance(forward, oracle.Failure):
        return True  # no kernel; or the comparison of samples reports it
    values = forward[1 if built.init else 0]
    feeds = dict(built.feeds)
    dys = []
    for i in ports:
        n = built.graph.node.add(name="dy%d" % i, op="Placeholder")
        n.attr["dtype"].type = built.types[i]
        dys.append("dy%d:0" % i)
        shape = values[built.fetches.index("op:%d" % i)].shape
        feeds[dys[-1]] = cases.Input(built.types[i], shape).draw(rng)
    ys = ["op:%d" % i for i in ports]
    graph = oracle.tf_graph(built.graph)
    want = theirs(graph, ys, xs, dys)
    say("meshflow")
    got = answer(built, ys, xs, dys, feeds)
    if isinstance(want, oracle.Failure) and want.name != "UNIMPLEMENTED":
        return False
    if isinstance(want, oracle.Failure):
        if not isinstance(got, oracle.Failure):
            report.fail(text, "has a gradient, TensorFlow: %r" % want)
        else:
            report.refused += 1
        return True
    init = [([], {}, ["init"])] if built.init else []
    say("tensorflow")
    named = [w for w in want if w is not None]
    wanted = oracle.run_tf(graph, init + [([w.name for w in named], feeds, [])])
    if isinstance(wanted, oracle.Failure):
        report.no_kernel += 1
        return True
    if isinstance(got, oracle.Failure):
        report.fail(text, "%r, TensorFlow has a gradient" % got)
        return True
    values = iter(wanted[-1])
    want = [None if w is None else next(values) for w in want]
    if all(feeds[d].size == 0 for d in dys):  # TensorFlow leaves some of these uninitialised
        want = [None if w is None else np.zeros_like(w) for w in want]
    judge(case, built, xs, got, want, report)
    return True


def _is_ref(case, i):
    args = op_def_registry.get(case.op).input_arg
    return case.inputs[i].variable and args[min(i, len(args) - 1)].is_ref


def answer(built, ys, xs, dys, feeds):
    """Values of Meshflow's gradients (None: no gradient), or a Failure."""
    try:
        graph, names = ours(built.graph.SerializeToString(), ys, xs, dys)
    except mf.Error as e:
        return oracle.Failure(e.name, str(e))
    if not any(names):
        return names
    init = [([], {}, ["init"])] if built.init else []
    out = oracle.run_mf(graph, init + [([n for n in names if n], feeds, [])])
    if isinstance(out, oracle.Failure):
        return out
    values = iter(out[-1])
    return [next(values) if n else None for n in names]


def judge(case, built, xs, got, want, report):
    for x, a, b in zip(xs, got, want):
        if a is None and b is None:
            continue
        if a is None or b is None:
            if np.any(wide_abs(b if a is None else a)):
                report.fail(case.text(), "gradient of %s is %s, TensorFlow's is %s" % (
                    x, "none" if a is None else "not none", "none" if b is None else "not none"))
                return
            continue
        what = oracle.close(a, b, case.tolerance, max(differential.terms(built, b),
                                                      differential.terms(built, built.values[0])),
                            loosen=3.0)
        if what:
            report.fail(case.text(), "gradient of %s: %s" % (x, what))
            return
    report.compared += 1


def wide_abs(x):
    return np.abs(oracle.wide(np.asarray(x)))


def registered(name):
    """'yes', 'none' or 'missing', as TensorFlow has it."""
    from tensorflow.python.framework import ops
    try:
        fn = ops.gradient_registry.lookup(name)
    except LookupError:
        return "missing"
    return "yes" if fn is not None else "none"


# Ops of which TensorFlow registers a gradient and we do not, and why.
UNREGISTERED = {
    **dict.fromkeys(["Enter", "Exit", "NextIteration", "RefEnter", "RefExit", "RefNextIteration"],
                    "loops of frames are differentiated by whoever builds them; While has a gradient"),
    "EagerPyFunc": "needs a Python interpreter",
    **dict.fromkeys(["SparseDenseCwiseAdd", "SparseSparseMaximum", "SparseSparseMinimum"],
                    "TensorFlow's function says that there is none"),
}
# Ops that stop gradients, for which TensorFlow registers a function that returns None.
STOPS = {"ArgMax", "ArgMin", "Ceil", "Floor", "FloorDiv", "LoopCond", "Rint", "Round", "TruncateDiv"}
# TensorFlow registers a gradient for each call of these; control_flow.py compares.
BY_CALL = {"PartitionedCall", "StatefulPartitionedCall"}
# Ops whose gradient is not compared on samples, and why.
NOT_COMPARED = {
    **dict.fromkeys(["MatrixDiagPartV2", "MatrixDiagV2", "MatrixSetDiagV2"],
                    "TensorFlow's gradient aligns diagonals as V3 does, not as the op itself"),
    **dict.fromkeys(["MaxPoolGrad", "MaxPoolGradV2", "MaxPool3DGrad"],
                    "needs a third input that fits the others, which a sample cannot say"),
}


# Types in which gradients are not compared.
NOT_TYPES = {"Svd": cases.COMPLEX}  # the phases of vectors are undetermined, and the gradient depends on them


def check(op, seed, start, progress):
    report = differential.Report(op.name)
    if op_def_registry.get(op.name) is None:
        return report
    # Where TensorFlow registers nothing, stopping and refusing are both fine: nothing can be compared.
    if registered(op.name) != "yes" and op.name not in BY_CALL:
        if op.gradient == "yes":
            report.fail("", "has a gradient, TensorFlow: %s" % registered(op.name))
        return report
    lacks = op.gradient == "missing" or (op.gradient == "none" and op.name not in STOPS)
    if lacks and op.name not in UNREGISTERED:
        report.fail("", "no gradient, TensorFlow has one")
    if not lacks and op.name in UNREGISTERED:
        report.fail("", "has a gradient: take it from the list UNREGISTERED")
    if op.gradient == "missing" or op.name in NOT_COMPARED:
        return report
    for index, text in enumerate(op.samples):
        if index < start:
            continue
        try:
            case = cases.parse(op.name, text)
        except (ValueError, KeyError):
            continue  # reported by the comparison of samples
        if case.fails or case.no_tf or case.unordered or (
                case.inputs and case.inputs[0].dtype in NOT_TYPES.get(op.name, ())):
            continue
        say = lambda side: progress("%s gradient of %s \"%s\"" % (side, op.name, text), index, report)
        try:
            check_case(case, differential.generator(seed, "gradient of " + op.name, index), report, say)
        except (ValueError, KeyError, TypeError) as e:
            report.fail(text, "cannot be built: %s" % e)
    return report
