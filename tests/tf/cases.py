# SPDX-License-Identifier: Apache-2.0
"""Samples (tests/ops/sample.h) as cases: values, attributes, and one GraphDef for both sides."""
import copy
import re

import ml_dtypes
import numpy as np
from tensorflow.core.framework import attr_value_pb2, graph_pb2
from tensorflow.python.framework import dtypes, op_def_registry, tensor_util

import signatures

TYPES = {"f32": 1, "f64": 2, "i32": 3, "u8": 4, "i16": 5, "i8": 6, "str": 7, "c64": 8, "i64": 9,
         "bool": 10, "bf16": 14, "u16": 17, "c128": 18, "f16": 19, "u32": 22, "u64": 23,
         "qi8": 11, "qu8": 12, "qi32": 13, "qi16": 15, "qu16": 16}
SHORT = {v: k for k, v in TYPES.items()}
NUMPY = {1: np.float32, 2: np.float64, 3: np.int32, 4: np.uint8, 5: np.int16, 6: np.int8,
         7: object, 8: np.complex64, 9: np.int64, 10: np.bool_, 14: ml_dtypes.bfloat16,
         17: np.uint16, 18: np.complex128, 19: np.float16, 22: np.uint32, 23: np.uint64}
QUANTIZED = {t: np.dtype(dtypes.as_dtype(t).as_numpy_dtype) for t in (11, 12, 13, 15, 16)}
NUMPY.update(QUANTIZED)
FLOATS, COMPLEX = (1, 2, 14, 19), (8, 18)
INTS, UNSIGNED = (3, 4, 5, 6, 9, 17, 22, 23), (4, 17, 22, 23)


class Input:
    """One input: either literal values or a range to draw from."""

    def __init__(self, dtype, shape, lo=None, hi=None, literal=None, variable=False, kink=False):
        self.dtype, self.shape, self.lo, self.hi = dtype, tuple(shape), lo, hi
        self.literal, self.variable, self.kink = literal, variable, kink
        self.special = ()  # values that take the place of a third of the drawn ones

    def draw(self, rng):
        out = self._draw(rng)
        if self.special and out.size:
            flat = out.reshape(-1)
            chosen = rng.random(flat.size) < 1 / 3
            chosen[rng.integers(flat.size)] = True
            flat[chosen] = rng.choice(np.array(self.special), chosen.sum()).astype(flat.dtype)
        return out

    def _draw(self, rng):
        t, n = self.dtype, int(np.prod(self.shape, dtype=np.int64))
        if self.literal is not None:
            flat = _literal(self.literal, t)
            if len(flat) != n:
                raise ValueError("%d values for %d elements" % (len(flat), n))
            return flat.reshape(self.shape)
        if t == 7:
            flat = np.empty(n, object)
            for i in range(n):
                flat[i] = bytes(rng.integers(97, 123, rng.integers(0, 8)).astype(np.uint8))
        elif t == 10:
            flat = rng.integers(0, 2, n).astype(np.bool_)
        else:
            lo = self.lo if self.lo is not None else (
                0 if t in UNSIGNED else -4 if t in INTS else -2)
            hi = self.hi if self.hi is not None else (5 if t in INTS else 2)
            flat = rng.uniform(lo, hi, n)
            if t in INTS:
                flat = np.floor(flat).astype(np.int64)
            elif t in QUANTIZED:
                flat = np.floor(flat).astype(np.int64).astype(NUMPY[t][0]).view(NUMPY[t])
            elif t in COMPLEX:
                flat = flat + 1j * rng.uniform(lo, hi, n)
            flat = flat.astype(NUMPY[t])
        return flat.reshape(self.shape)

    def text(self):
        s = "%s%s[%s]" % ("var:" if self.variable else "", SHORT[self.dtype],
                          ",".join(map(str, self.shape)))
        if self.literal is not None:
            s += "{%s}" % ",".join(self.literal)
        elif self.lo is not None:
            s += "@%g:%g" % (self.lo, self.hi)
        if self.special:
            s += " with %s" % ",".join("%g" % v for v in self.special)
        return s + ("~" if self.kink else "")


def _literal(words, t):
    if t == 7:
        out = np.empty(len(words), object)
        out[:] = [w.encode() for w in words]
        return out
    if t == 10:
        return np.array([w.startswith("true") or _number(w) != 0 for w in words], np.bool_)
    if t in INTS:  # through a double, as the C side reads them
        info = np.iinfo(NUMPY[t])
        values = [min(max(int(_number(w)), int(info.min)), int(info.max)) for w in words]
        return np.array(values, NUMPY[t]) if words else np.zeros(0, NUMPY[t])
    with np.errstate(over="ignore"):
        return np.array([float(w) for w in words], np.float64).astype(NUMPY[t])


def _number(word):
    if word == "true":
        return 1
    if word == "false":
        return 0
    try:
        return int(word)
    except ValueError:
        return float(word)


class Case:
    """An op with inputs and attributes. Attributes are AttrValues by name, without types."""

    def __init__(self, op):
        self.op = op
        self.inputs, self.attrs = [], {}
        self.fails = self.no_grad = self.no_tf = self.unordered = False
        self.tolerance = None

    def copy(self):
        c = copy.copy(self)
        c.inputs = [copy.copy(i) for i in self.inputs]
        c.attrs = dict(self.attrs)
        return c

    def text(self):
        attrs = " ".join("%s=%s" % (k, signatures.tf_opdef.value_text(v))
                         for k, v in self.attrs.items())
        return " ".join([i.text() for i in self.inputs] + ([";", attrs] if attrs else []))


INPUT = re.compile(r"(var:)?([a-z]+\d*)\[([-\d,]*)\](?:@([^:\s~]+)(?::([^\s~]+))?)?"
                   r"(?:\{([^}]*)\})?(~)?$")


def parse(op, text):
    """A sample's line. ValueError quoting what cannot be read."""
    case = Case(op)
    definition = op_def_registry.get(op)
    text, _, rest = text.partition(";")
    flags = re.findall(r"!\S+", text + " " + rest)
    for flag in flags:
        if flag.startswith("!tol:"):
            case.tolerance = float(flag[5:])
        elif flag == "!fails":
            case.fails = True
        elif flag == "!nograd":
            case.no_grad = True
        elif flag == "!notf":
            case.no_tf = True
        elif flag == "!unordered":
            case.unordered = True
        else:
            raise ValueError("unknown flag " + flag)
    for word in re.sub(r"!\S+", "", text).split():
        m = INPUT.match(word)
        if not m or m[2] not in TYPES:
            raise ValueError("cannot read input " + word)
        dims = [int(d) for d in m[3].split(",") if d]
        lo = float(m[4]) if m[4] else None
        hi = float(m[5]) if m[5] else lo
        literal = None if m[6] is None else [w for w in m[6].split(",") if w or m[2] == "str"]
        if literal == [""] and np.prod(dims, dtype=np.int64) == 0:
            literal = []
        case.inputs.append(Input(TYPES[m[2]], dims, lo, hi, literal, bool(m[1]), bool(m[7])))
    rest = re.sub(r"!\S+", "", rest)
    reader = signatures.Reader(rest)
    kinds = {a.name: a.type for a in definition.attr} if definition else {}
    while reader.peek():
        name = reader.next()
        reader.need("=")
        if name.startswith("_"):  # our own; TensorFlow has no such case
            case.no_tf = True
            is_list = reader.peek() == "["
            reader.value("int" if is_list else "bool", is_list)
            continue
        if name not in kinds:
            raise ValueError("%s has no attribute %s" % (op, name))
        kind = kinds[name]
        case.attrs[name] = reader.value(kind[5:-1] if kind.startswith("list(") else kind,
                                        kind.startswith("list("))
        reader.eat(",")
    return case


def bind(case):
    """The node's attributes with types and counts that follow from the inputs: name -> AttrValue.
    ValueError where inputs do not fit the signature."""
    definition = op_def_registry.get(case.op)
    attrs = {k: v for k, v in case.attrs.items()}
    given = [i.dtype for i in case.inputs]
    counts = {}
    single = sum(1 for a in definition.input_arg if not a.number_attr and not a.type_list_attr)
    lists = [a for a in definition.input_arg if a.number_attr or a.type_list_attr]
    for a in lists:
        if a.number_attr and a.number_attr in attrs:
            counts[a.name] = attrs[a.number_attr].i
        elif a.type_list_attr and a.type_list_attr in attrs:
            counts[a.name] = len(attrs[a.type_list_attr].list.type)
    left = len(given) - single - sum(counts.values())
    unknown = [a for a in lists if a.name not in counts]
    for a in unknown:
        counts[a.name] = left // len(unknown)
    at = 0
    for a in definition.input_arg:
        n = counts.get(a.name, 1)
        types = given[at:at + n]
        at += n
        if len(types) != n:
            raise ValueError("too few inputs")
        if a.number_attr:
            attrs.setdefault(a.number_attr, attr_value_pb2.AttrValue(i=n))
        if a.type_list_attr:
            value = attr_value_pb2.AttrValue()
            value.list.type.extend(types)
            attrs.setdefault(a.type_list_attr, value)
        elif a.type_attr and types and a.type != 20:
            attrs.setdefault(a.type_attr, attr_value_pb2.AttrValue(type=types[0]))
    if at != len(given):
        raise ValueError("too many inputs")
    # A resource argument's type is in "dtype" or "T".
    for a in definition.attr:
        if a.type == "type" and a.name not in attrs and not a.HasField("default_value"):
            for i, arg in zip(case.inputs, definition.input_arg):
                if i.variable and arg.type == 20:
                    attrs[a.name] = attr_value_pb2.AttrValue(type=i.dtype)
    return attrs


def outputs(definition, attrs):
    """Types of the outputs, in order."""
    out = []
    attrs = dict(attrs)
    for a in definition.attr:
        if a.name not in attrs and a.HasField("default_value"):
            attrs[a.name] = a.default_value
    for a in definition.output_arg:
        if a.type_list_attr:
            out.extend(attrs[a.type_list_attr].list.type)
            continue
        t = a.type or attrs[a.type_attr].type
        out.extend([t] * (attrs[a.number_attr].i if a.number_attr else 1))
    return out


class Built:
    """A case as a GraphDef with feeds and fetches."""

    def __init__(self, case, values, shapes):
        self.graph = graph_pb2.GraphDef()
        self.graph.versions.producer = 2474
        self.values, self.shapes = values, shapes
        self.feeds, self.fetches, self.after, self.init = {}, [], [], False
        self.case = case
        definition = op_def_registry.get(case.op)
        if definition.HasField("deprecation"):
            self.graph.versions.producer = definition.deprecation.version - 1
        refs = [a.is_ref for a in definition.input_arg]
        init = []
        for i, (spec, value) in enumerate(zip(case.inputs, values)):
            if spec.variable:
                ref = refs[min(i, len(refs) - 1)]
                self._variable(i, spec, value, ref, init)
            else:
                n = self.graph.node.add(name="in%d" % i, op="Placeholder")
                n.attr["dtype"].type = spec.dtype
                if shapes:
                    n.attr["shape"].shape.SetInParent()
                    for d in spec.shape:
                        n.attr["shape"].shape.dim.add().size = d
                self.feeds["in%d:0" % i] = value
        if init:
            self.graph.node.add(name="init", op="NoOp", input=["^" + n for n in init])
            self.init = True
        node = self.graph.node.add(name="op", op=case.op)
        node.input.extend("in%d" % i for i in range(len(case.inputs)))
        attrs = bind(case)
        for k, v in attrs.items():
            node.attr[k].CopyFrom(v)
        self.types = outputs(definition, attrs)
        self.fetches = ["op:%d" % i for i, t in enumerate(self.types) if t % 100 not in (20, 21)]

    def _variable(self, i, spec, value, ref, init):
        g = self.graph
        v = g.node.add(name="in%d" % i, op="VariableV2" if ref else "VarHandleOp")
        v.attr["dtype"].type = spec.dtype
        v.attr["shared_name"].s = b"in%d" % i  # without, TensorFlow makes all of them one
        v.attr["shape"].shape.SetInParent()
        for d in spec.shape:
            v.attr["shape"].shape.dim.add().size = d
        c = g.node.add(name="value%d" % i, op="Const")
        c.attr["dtype"].type = spec.dtype
        c.attr["value"].tensor.CopyFrom(tensor_util.make_tensor_proto(
            value, shape=spec.shape, dtype=spec.dtype))
        a = g.node.add(name="assign%d" % i, op="Assign" if ref else "AssignVariableOp",
                       input=["in%d" % i, "value%d" % i])
        a.attr["T" if ref else "dtype"].type = spec.dtype
        init.append(a.name)
        r = g.node.add(name="read%d" % i, op="Identity" if ref else "ReadVariableOp",
                       input=["in%d" % i])
        r.attr["T" if ref else "dtype"].type = spec.dtype
        self.after.append("read%d:0" % i)


def build(case, rng, shapes=False):
    """shapes: whether the shapes of inputs are in the graph."""
    return Built(case, [i.draw(rng) for i in case.inputs], shapes)
