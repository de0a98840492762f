# SPDX-License-Identifier: Apache-2.0
"""Every op's signature against TensorFlow's registry. The text of src/graph/opdef.h is read here by a
parser of its own, so that a mistake in the C parser cannot hide one in a definition."""
import os
import re
import sys

import oplist

sys.path.insert(0, os.path.join(oplist.ROOT, "tools"))
import numpy as np  # noqa: E402
import tf_opdef  # noqa: E402  (imports TensorFlow)
from tensorflow.core.framework import attr_value_pb2  # noqa: E402
from tensorflow.python.framework import dtypes, op_def_registry, tensor_util  # noqa: E402

FLAGS = ("is_commutative", "is_aggregate", "is_stateful", "allows_uninitialized_input",
         "is_distributed_communication")
ALIAS = {"float": "float32", "double": "float64", "half": "float16"}
TOKEN = re.compile(r"\s*(->|>=|shape\?|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\""
                   r"|[-+]?(?:\d[\w.]*(?:(?<=[eE])[-+]\d+)?|inf\b|nan\b)|[A-Za-z_]\w*|.)", re.S)


def type_number(name):
    """TensorFlow's number of "float", "int32"...; KeyError for other words."""
    try:
        return dtypes.as_dtype(ALIAS.get(name, name)).as_datatype_enum
    except TypeError:
        raise KeyError(name) from None


class Reader:
    """Tokens of a definition or of an attribute text."""

    def __init__(self, text):
        self.tokens = [t for t in TOKEN.findall(text) if t.strip()]
        self.at = 0

    def peek(self):
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self):
        token = self.peek()
        self.at += 1
        return token

    def eat(self, token):
        if self.peek() == token:
            self.at += 1
            return True
        return False

    def need(self, token):
        if not self.eat(token):
            raise ValueError("expected %s before %s" % (token, self.tokens[self.at:self.at + 4]))

    def value(self, kind, is_list):
        """An attribute's value as an AttrValue."""
        out = attr_value_pb2.AttrValue()
        if not is_list:
            self._single(kind, out)
            return out
        out.list.SetInParent()
        self.need("[")
        while not self.eat("]"):
            one = attr_value_pb2.AttrValue()
            self._single(kind, one)
            field = one.WhichOneof("value")
            if field == "shape":
                out.list.shape.add().CopyFrom(one.shape)
            else:
                getattr(out.list, field).append(getattr(one, field))
            self.eat(",")
        return out

    def _single(self, kind, out):
        token = self.next()
        if kind == "string":
            text = re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), token[1:-1])
            out.s = text.encode("latin1")
        elif kind == "int":
            out.i = int(token)
        elif kind == "float":
            out.f = float(token)
        elif kind == "bool":
            out.b = {"true": True, "false": False}[token.lower()]
        elif kind == "type":
            out.type = type_number(token)
        elif kind == "shape":
            self._shape(token, out.shape)
        elif kind == "func":
            out.func.name = self.next()
        elif kind == "tensor":
            self._tensor(token, out.tensor)
        else:
            raise ValueError("unknown kind " + kind)

    def _tensor(self, token, out):
        """uint8[4]{255,0,0,255}"""
        shape, values = [], []
        for into, begin, end in ((shape, "[", "]"), (values, "{", "}")):
            self.need(begin)
            while not self.eat(end):
                into.append(float(self.next()))
                self.eat(",")
        dtype = dtypes.as_dtype(type_number(token))
        array = np.array(values, dtype.as_numpy_dtype).reshape([int(d) for d in shape])
        out.CopyFrom(tensor_util.make_tensor_proto(array, dtype))

    def _shape(self, token, out):
        if token == "shape?":
            out.unknown_rank = True
            return
        self.need("[")
        out.SetInParent()
        while not self.eat("]"):
            out.dim.add().size = -1 if self.eat("?") else int(self.next())
            self.eat(",")


def _args(r):
    out = []
    r.need("(")
    while not r.eat(")"):
        name = r.next()
        r.need(":")
        ref = r.eat("ref")
        if r.eat("*"):
            kind = ("list", r.next())
        else:
            word = r.next()
            number = None
            if r.eat("*"):
                number, word = word, r.next()
            try:
                kind = (number, type_number(word))
            except KeyError:
                kind = (number, word)
        out.append((name, ref, kind))
        r.eat(",")
    return out


def _allowed(r, kind):
    if r.peek() in tf_opdef.SETS:
        return frozenset(type_number(t) for t in tf_opdef.SETS[r.next()])
    lst = r.value(kind, True).list
    return frozenset(lst.type) if kind == "type" else tuple(lst.s)


def read(text):
    """A definition's text as plain data, comparable with of_tensorflow()."""
    r = Reader(text)
    ins = _args(r)
    r.need("->")
    outs = _args(r)
    attrs = []
    if r.eat("{"):
        while not r.eat("}"):
            name = r.next()
            r.need(":")
            kind, is_list = r.next(), False
            if kind == "list":
                r.need("(")
                kind, is_list = r.next(), True
                r.need(")")
            minimum = default = allowed = None
            while r.peek() not in ",}":
                if r.eat(">="):
                    minimum = int(r.next())
                elif r.eat("="):
                    default = r.value(kind, is_list).SerializeToString(deterministic=True)
                elif r.eat("in"):
                    allowed = _allowed(r, kind)
                else:
                    raise ValueError("unexpected " + r.peek())
            attrs.append((name, kind, is_list, minimum, default, allowed))
            r.eat(",")
    flags = set()
    while r.peek():
        flags.add(r.next())
    return {"inputs": ins, "outputs": outs, "attributes": attrs, "flags": flags}


def _tf_arg(arg):
    if arg.type_list_attr:
        return arg.name, arg.is_ref, ("list", arg.type_list_attr)
    return arg.name, arg.is_ref, (arg.number_attr or None, arg.type_attr or arg.type)


def _tf_attr(attr):
    kind, is_list = attr.type, attr.type.startswith("list(")
    if is_list:
        kind = kind[5:-1]
    default = allowed = None
    if attr.HasField("default_value"):
        value = attr_value_pb2.AttrValue()
        value.CopyFrom(attr.default_value)
        if value.HasField("tensor"):
            array = tensor_util.MakeNdarray(value.tensor)
            value.tensor.CopyFrom(tensor_util.make_tensor_proto(array, value.tensor.dtype))
        default = value.SerializeToString(deterministic=True)
    if attr.allowed_values.list.type:
        known = {type_number(t) for t in tf_opdef.KNOWN}
        allowed = frozenset(attr.allowed_values.list.type) & known
    elif attr.allowed_values.list.s:
        allowed = tuple(attr.allowed_values.list.s)
    return (attr.name, kind, is_list, attr.minimum if attr.has_minimum else None, default, allowed)


def of_tensorflow(op):
    return {"inputs": [_tf_arg(a) for a in op.input_arg],
            "outputs": [_tf_arg(a) for a in op.output_arg],
            "attributes": [_tf_attr(a) for a in op.attr],
            "flags": {f for f in FLAGS if getattr(op, f)}}


def check(op):
    """The differences of one of our ops from TensorFlow's, as lines."""
    theirs = op_def_registry.get(op.name)
    if theirs is None:
        return [] if op.name.startswith("_") else ["TensorFlow has no such op"]
    try:
        ours = read(op.definition)
    except (ValueError, KeyError) as e:
        return ["definition cannot be read: %s" % e]
    want = of_tensorflow(theirs)
    if op.name.startswith("_") and ours != want:
        return ["ours alone by its name, but TensorFlow has one: %s" % tf_opdef.def_text(theirs)]
    return ["%s: %r, TensorFlow has %r" % (k, ours[k], want[k]) for k in want if ours[k] != want[k]]
