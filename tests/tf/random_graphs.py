# SPDX-License-Identifier: Apache-2.0
"""Random graphs of 5 to 200 ops, the same bytes through both. Every node's values stay tame (a step
squashes what grows), so that differences grow with depth and not with the values; the tolerance grows
with the depth. Graphs of integers must agree exactly. Meshflow alone must give the same bits with any
exact pass switched off and for any number of threads."""
import numpy as np
from tensorflow.core.framework import graph_pb2
from tensorflow.python.framework import tensor_util

import cases
import differential
import oplist
import oracle

MAX_COUNT, MAX_RANK = 4096, 5


class Value:
    def __init__(self, name, dtype, shape, depth):
        self.name, self.dtype, self.shape, self.depth = name, dtype, tuple(shape), depth

    @property
    def count(self):
        return int(np.prod(self.shape, dtype=np.int64))


class Graph:
    """A graph that grows by one op at a time. dtype: the type most values have."""

    def __init__(self, rng, dtype):
        self.rng, self.dtype = rng, dtype
        self.graph = graph_pb2.GraphDef()
        self.graph.versions.producer = 2474
        self.values, self.bools, self.feeds, self.n = [], [], {}, 0

    # -- pieces --

    def node(self, op, inputs, out_dtype, shape, /, **attrs):
        name = "n%d" % self.n
        self.n += 1
        n = self.graph.node.add(name=name, op=op)
        n.input.extend(i.name for i in inputs)
        for k, v in attrs.items():
            field = {bool: "b", int: "i", float: "f", bytes: "s"}.get(type(v))
            if k.startswith("T") or k in ("dtype", "out_type", "SrcT", "DstT", "Index"):
                n.attr[k].type = v
            elif isinstance(v, list):
                n.attr[k].list.i.extend(v)
            else:
                setattr(n.attr[k], field, v)
        depth = 1 + max([i.depth for i in inputs], default=-1)
        return Value(name, out_dtype, shape, depth)

    def const(self, array):
        array = np.asarray(array)
        name = "n%d" % self.n
        self.n += 1
        n = self.graph.node.add(name=name, op="Const")
        proto = tensor_util.make_tensor_proto(array)
        n.attr["dtype"].type = proto.dtype
        n.attr["value"].tensor.CopyFrom(proto)
        return Value(name, proto.dtype, array.shape, 0)

    def ints(self, values):
        return self.const(np.array(values, np.int32).reshape(-1))

    def pick(self):
        # Newer ones more often: graphs should be deep, too.
        k = int(len(self.values) * self.rng.beta(1.6, 1.0))
        return self.values[min(k, len(self.values) - 1)]

    def below(self, n):
        return int(self.rng.integers(n))

    def shape(self):
        rank = int(self.rng.choice([0, 1, 2, 2, 3, 4]))
        shape = [int(self.rng.choice([1, 2, 3, 4, 5, 7, 8])) for _ in range(rank)]
        if self.below(40) == 0 and rank:
            shape[self.below(rank)] = 0
        return shape

    # -- leaves --

    def leaf(self):
        shape = self.shape()
        value = cases.Input(self.dtype, shape).draw(self.rng)
        if self.below(3) == 0:
            return self.const(value)
        v = self.node("Placeholder", [], self.dtype, shape, dtype=self.dtype)
        if self.below(2):
            node = self.graph.node[-1]
            node.attr["shape"].shape.SetInParent()
            for d in shape:
                node.attr["shape"].shape.dim.add().size = d
        self.feeds[v.name + ":0"] = value
        return v

    # -- ops: each adds one node (and constants) and returns its value, or None --

    def unary(self):
        x = self.pick()
        if self.dtype in cases.INTS:
            op = self.rng.choice(["Neg", "Abs", "Sign", "Invert", "Identity", "OnesLike",
                                  "ZerosLike"])
        else:
            op = self.rng.choice(["Neg", "Abs", "Tanh", "Sigmoid", "Relu", "Softplus", "Sin", "Cos",
                                  "Square", "Relu6", "Elu", "Atan", "Erf", "Identity", "Softsign"])
        return self.node(op, [x], x.dtype, x.shape, T=x.dtype)

    def partner(self, x):
        """A value that x broadcasts with."""
        fits = [v for v in self.values if _broadcast(x.shape, v.shape) is not None]
        return fits[self.below(len(fits))]

    def binary(self):
        x = self.pick()
        y = self.partner(x)
        op = self.rng.choice(["AddV2", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference"]
                             + (["BitwiseAnd", "BitwiseXor", "BitwiseOr"]
                                if self.dtype in cases.INTS else ["AddV2", "Sub"]))
        if self.below(2):
            x, y = y, x
        return self.node(op, [x, y], x.dtype, _broadcast(x.shape, y.shape), T=x.dtype)

    def compare(self):
        x = self.pick()
        y = self.partner(x)
        # Only integers: comparisons of nearly equal floats may differ.
        if self.dtype not in cases.INTS:
            return None
        op = self.rng.choice(["Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual"])
        b = self.node(op, [x, y], 10, _broadcast(x.shape, y.shape), T=x.dtype)
        self.bools.append(b)
        return self.node("Cast", [b], self.dtype, b.shape, SrcT=10, DstT=self.dtype)

    def select(self):
        x = self.pick()
        y = self.partner(x)
        shape = _broadcast(x.shape, y.shape)
        fits = [b for b in self.bools if _broadcast(b.shape, shape) is not None]
        if fits and self.below(2):
            c = fits[self.below(len(fits))]
        else:
            c = self.const(self.rng.integers(0, 2, shape).astype(np.bool_))
        return self.node("SelectV2", [c, x, y], x.dtype, _broadcast(c.shape, shape), T=x.dtype)

    def reduce(self):
        x = self.pick()
        axes = [a for a in range(len(x.shape)) if self.below(2)]
        keep = bool(self.below(2))
        shape = [1 if a in axes else d for a, d in enumerate(x.shape) if keep or a not in axes]
        op = self.rng.choice(["Sum", "Max", "Min", "Mean"] if self.dtype not in cases.INTS else
                             ["Sum", "Max", "Min", "Prod"])
        if x.count == 0 and op == "Mean":
            op = "Sum"
        axes = [a - len(x.shape) if self.below(2) else a for a in axes]
        return self.node(op, [x, self.ints(axes)], x.dtype, shape, T=x.dtype, Tidx=3,
                         keep_dims=keep)

    def matmul(self):
        two = [v for v in self.values if len(v.shape) >= 2]
        if not two or self.dtype in (4, 5, 6, 17):
            return None
        x = two[self.below(len(two))]
        fits = [v for v in two if v.shape[:-2] == x.shape[:-2] and v.shape[-2] == x.shape[-1]]
        ta = tb = False
        if fits:
            y = fits[self.below(len(fits))]
            shape = x.shape[:-1] + y.shape[-1:]
        else:
            y, tb = x, True
            shape = x.shape[:-1] + x.shape[-2:-1]
        if len(x.shape) == 2:
            return self.node("MatMul", [x, y], x.dtype, shape, T=x.dtype, transpose_a=ta,
                             transpose_b=tb)
        return self.node("BatchMatMulV2", [x, y], x.dtype, shape, T=x.dtype, adj_x=ta, adj_y=tb)

    def reshape(self):
        x = self.pick()
        shape = _factor(x.count, self.rng)
        given = list(shape)
        if given and x.count and self.below(2):
            given[self.below(len(given))] = -1
        return self.node("Reshape", [x, self.ints(given)], x.dtype, shape, T=x.dtype, Tshape=3)

    def transpose(self):
        x = self.pick()
        perm = self.rng.permutation(len(x.shape)).tolist()
        return self.node("Transpose", [x, self.ints(perm)], x.dtype, [x.shape[p] for p in perm],
                         T=x.dtype, Tperm=3)

    def expand(self):
        x = self.pick()
        axis = self.below(len(x.shape) + 1)
        shape = x.shape[:axis] + (1,) + x.shape[axis:]
        return self.node("ExpandDims", [x, self.const(np.int32(axis))], x.dtype, shape, T=x.dtype,
                         Tdim=3)

    def squeeze(self):
        x = self.pick()
        axes = [a for a, d in enumerate(x.shape) if d == 1]
        if not axes:
            return None
        return self.node("Squeeze", [x], x.dtype, [d for d in x.shape if d != 1], T=x.dtype,
                         squeeze_dims=axes)

    def concat(self):
        x = self.pick()
        if not x.shape:
            return None
        axis = self.below(len(x.shape))
        fits = [v for v in self.values if len(v.shape) == len(x.shape) and all(
            a == b for k, (a, b) in enumerate(zip(v.shape, x.shape)) if k != axis)]
        xs = [x] + [fits[self.below(len(fits))] for _ in range(1 + self.below(3))]
        shape = list(x.shape)
        shape[axis] = sum(v.shape[axis] for v in xs)
        return self.node("ConcatV2", xs + [self.const(np.int32(axis))], x.dtype, shape,
                         T=x.dtype, Tidx=3, N=len(xs))

    def pack(self):
        x = self.pick()
        fits = [v for v in self.values if v.shape == x.shape]
        xs = [fits[self.below(len(fits))] for _ in range(1 + self.below(3))]
        axis = self.below(len(x.shape) + 1)
        shape = x.shape[:axis] + (len(xs),) + x.shape[axis:]
        return self.node("Pack", xs, x.dtype, shape, T=x.dtype, N=len(xs), axis=axis)

    def slice(self):
        x = self.pick()
        begin = [self.below(d + 1) for d in x.shape]
        size = [self.below(d - b + 1) if d - b else 0 for b, d in zip(begin, x.shape)]
        size = [max(1, s) if d > b else s for s, b, d in zip(size, begin, x.shape)]
        return self.node("Slice", [x, self.ints(begin), self.ints(size)], x.dtype, size, T=x.dtype,
                         Index=3)

    def strided(self):
        x = self.pick()
        if not x.shape:
            return None
        begin, end, stride, shape, shrink = [], [], [], [], 0
        for k, d in enumerate(x.shape):
            s = int(self.rng.choice([-2, -1, 1, 1, 2, 3]))
            b, e = int(self.rng.integers(-d - 1, d + 2)), int(self.rng.integers(-d - 1, d + 2))
            if d and self.below(5) == 0:
                b = self.below(d)
                e, s = b + 1, 1
                shrink |= 1 << k
            else:
                shape.append(len(range(d)[slice(b, e, s)]))
            begin.append(b), end.append(e), stride.append(s)
        return self.node("StridedSlice", [x, self.ints(begin), self.ints(end), self.ints(stride)],
                         x.dtype, shape, T=x.dtype, Index=3, shrink_axis_mask=shrink)

    def gather(self):
        x = self.pick()
        if not x.shape or x.count == 0:
            return None
        axis = self.below(len(x.shape))
        shape = self.shape()[:2]
        at = self.const(self.rng.integers(0, x.shape[axis], shape).astype(np.int32))
        return self.node("GatherV2", [x, at, self.const(np.int32(axis))], x.dtype,
                         x.shape[:axis] + tuple(shape) + x.shape[axis + 1:], Tparams=x.dtype,
                         Tindices=3, Taxis=3)

    def tile(self):
        x = self.pick()
        times = [int(self.rng.choice([1, 1, 2, 3])) for _ in x.shape]
        return self.node("Tile", [x, self.ints(times)], x.dtype,
                         [a * b for a, b in zip(x.shape, times)], T=x.dtype, Tmultiples=3)

    def pad(self):
        x = self.pick()
        pads = self.rng.integers(0, 3, (len(x.shape), 2)).astype(np.int32)
        shape = [d + int(p.sum()) for d, p in zip(x.shape, pads)]
        return self.node("Pad", [x, self.const(pads)], x.dtype, shape, T=x.dtype, Tpaddings=3)

    def reverse(self):
        x = self.pick()
        axes = [a for a in range(len(x.shape)) if self.below(2)]
        return self.node("ReverseV2", [x, self.ints(axes)], x.dtype, x.shape, T=x.dtype, Tidx=3)

    def broadcast(self):
        x = self.pick()
        shape = [int(self.rng.choice([2, 3])) if d == 1 and self.below(2) else d for d in x.shape]
        shape = [int(self.rng.choice([1, 2]))] * self.below(2) + shape
        return self.node("BroadcastTo", [x, self.ints(shape)], x.dtype, shape, T=x.dtype, Tidx=3)

    def softmax(self):
        x = self.pick()
        if self.dtype in cases.INTS or not x.shape or x.count == 0:
            return None
        op = self.rng.choice(["Softmax", "LogSoftmax"])
        return self.node(op, [x], x.dtype, x.shape, T=x.dtype)

    def scan(self):
        x = self.pick()
        if not x.shape:
            return None
        return self.node("Cumsum", [x, self.const(np.int32(self.below(len(x.shape))))], x.dtype,
                         x.shape, T=x.dtype, Tidx=3, exclusive=bool(self.below(2)),
                         reverse=bool(self.below(2)))

    def segment(self):
        x = self.pick()
        if not x.shape or len(x.shape) > 3:
            return None
        ids = self.const(self.rng.integers(0, 3, x.shape[0]).astype(np.int32))
        return self.node("UnsortedSegmentSum", [x, ids, self.const(np.int32(3))], x.dtype,
                         (3,) + x.shape[1:], T=x.dtype, Tindices=3, Tnumsegments=3)

    def shape_of(self):
        x = self.pick()
        s = self.node("Shape", [x], 3, [len(x.shape)], T=x.dtype, out_type=3)
        if self.below(2):  # shapes as values
            return self.node("BroadcastTo", [self.scalar(), s], self.dtype, x.shape, T=self.dtype,
                             Tidx=3)
        return self.node("Cast", [s], self.dtype, s.shape, SrcT=3, DstT=self.dtype)

    def scalar(self):
        return self.const(cases.Input(self.dtype, ()).draw(self.rng))

    def cast(self):
        x = self.pick()
        via = {1: 2, 2: 1, 3: 9, 9: 3}.get(x.dtype)
        if via is None:
            return None
        y = self.node("Cast", [x], via, x.shape, SrcT=x.dtype, DstT=via)
        return self.node("Cast", [y], x.dtype, x.shape, SrcT=via, DstT=x.dtype)

    def addn(self):
        x = self.pick()
        fits = [v for v in self.values if v.shape == x.shape]
        xs = [fits[self.below(len(fits))] for _ in range(1 + self.below(4))]
        return self.node("AddN", xs, x.dtype, x.shape, T=x.dtype, N=len(xs))

    KINDS = ("unary unary unary binary binary binary binary reduce matmul reshape transpose expand "
             "squeeze concat pack slice strided gather tile pad reverse broadcast softmax scan segment "
             "shape_of cast addn select compare leaf").split()

    def grow(self, n_ops):
        for _ in range(1 + self.below(3)):
            self.values.append(self.leaf())
        tries = 0
        while len(self.graph.node) < n_ops and tries < 10 * n_ops:
            tries += 1
            before, bools = len(self.graph.node), len(self.bools)
            v = getattr(self, self.KINDS[self.below(len(self.KINDS))])()
            if v is None or v.count > MAX_COUNT or len(v.shape) > MAX_RANK:
                del self.graph.node[before:]
                if v is not None:
                    self.feeds.pop(v.name + ":0", None)
                del self.bools[bools:]
                continue
            if self.dtype not in cases.INTS and self.graph.node[-1].op in GROWS:
                v = self.node("Tanh", [v], v.dtype, v.shape, T=v.dtype)
            self.values.append(v)


GROWS = {"Square", "Mul", "SquaredDifference", "Sum", "MatMul", "BatchMatMulV2", "Cumsum", "AddN",
         "UnsortedSegmentSum", "Cast", "AddV2", "Sub", "Softplus", "LogSoftmax"}


def _broadcast(a, b):
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


def _factor(n, rng):
    """A random shape of n elements."""
    if n == 0:
        return [0, int(rng.integers(1, 4))]
    out = []
    while n > 1 and len(out) < 4:
        divisors = [d for d in range(2, n + 1) if n % d == 0]
        d = divisors[int(rng.integers(len(divisors)))]
        out.append(d)
        n //= d
    if n > 1:
        out[-1] *= n
    out += [1] * int(rng.integers(2))
    return [out[i] for i in rng.permutation(len(out))]


TYPES = (1, 1, 1, 2, 2, 3, 3, 9, 19, 14)


def one(seed, index):
    """The graph with this number: (graph, fetches)."""
    rng = np.random.default_rng([seed, index, 77])
    g = Graph(rng, int(rng.choice(TYPES)))
    g.grow(int(rng.integers(5, 201)) if index % 3 else int(rng.integers(5, 20)))
    # The last value, and some from everywhere.
    picks = {len(g.values) - 1} | {int(k) for k in rng.integers(len(g.values), size=5)}
    fetches = [g.values[k] for k in sorted(picks)]
    return g, fetches


ALWAYS = ("inline",)  # cannot be switched off


def check(unit, seed, count, start, progress):
    report = differential.Report("graphs")
    exact = [name for name, is_exact in oplist.passes() if is_exact and name not in ALWAYS]
    rounds = [name for name, is_exact in oplist.passes() if not is_exact]
    for index in range(max(start, unit * count), (unit + 1) * count):
        g, fetches = one(seed, index)
        label = "graph %d of seed %d" % (index, seed)
        say = lambda side: progress("%s %s" % (side, label), index, report)
        check_graph(g, fetches, label, exact, rounds, report, say)
    return report


def check_graph(g, fetches, label, exact, rounds, report, say):
    data = g.graph.SerializeToString()
    names = [v.name + ":0" for v in fetches]
    todo = [(names, g.feeds, [])]
    say("meshflow")
    ours = oracle.run_mf(data, todo, threads=1)
    say("tensorflow")
    theirs = oracle.run_tf(oracle.tf_graph(g.graph), todo)
    if isinstance(theirs, oracle.Failure):
        report.fail(label, "TensorFlow: %r; ours: %r" % (theirs, ours if isinstance(
            ours, oracle.Failure) else "an answer"))
        return
    if isinstance(ours, oracle.Failure):
        report.fail(label, repr(ours))
        return
    for v, a, b in zip(fetches, ours[0], theirs[0]):
        what = oracle.close(a, b, terms=64, loosen=1 + v.depth)
        if what:
            report.fail(label, "%s (%d ops, depth %d): %s" % (v.name, g.n, v.depth, what))
            return
    report.compared += 1
    say("meshflow")
    variants = [dict(threads=4)] + [dict(threads=2, disable=p) for p in exact]
    variants += [dict(threads=2, disable=",".join(exact))]
    for options in variants:
        again = oracle.run_mf(data, todo, **options)
        if isinstance(again, oracle.Failure) or any(
                a.tobytes() != b.tobytes() for a, b in zip(again[0], ours[0])):
            report.fail(label, "%s: %s" % (options, again if isinstance(again, oracle.Failure)
                                           else "the bits differ"))
    for name in rounds:
        again = oracle.run_mf(data, todo, threads=2, disable=name)
        for v, a, b in zip(fetches, again[0] if isinstance(again, list) else [], ours[0]):
            what = oracle.close(a, b, terms=64, loosen=1 + v.depth)
            if what:
                report.fail(label, "without %s: %s: %s" % (name, v.name, what))
        if isinstance(again, oracle.Failure):
            report.fail(label, "without %s: %r" % (name, again))
