# SPDX-License-Identifier: Apache-2.0
"""Cases derived from an op's samples: every type, every value of its attributes and every kind of shape
once, then any number of random ones, a few changes away from a sample."""
import numpy as np
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import op_def_registry

import cases
import differences

SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)
LARGEST = 20000  # elements of an input; more than a piece of the loops
NOT_CHANGED = (ValueError, KeyError)  # what a change raises when it does not apply


# ---- types ----

def arguments(definition, case):
    """The argument of each input."""
    attrs = cases.bind(case)
    out = []
    for a in definition.input_arg:
        n = (attrs[a.number_attr].i if a.number_attr else
             len(attrs[a.type_list_attr].list.type) if a.type_list_attr else 1)
        out.extend([a] * n)
    return out


def retype(i, t):
    old, i.dtype = i.dtype, t
    if i.literal is not None:
        if t == 7 or old == 7 or t == 10:
            i.literal = None
        elif t in cases.INTS:
            words = []
            for w in i.literal:
                v = cases._number(w)
                v = 0 if v != v else int(min(max(v, -100), 100))
                words.append(str(abs(v) if t in cases.UNSIGNED else v))
            i.literal = words
    if t in cases.UNSIGNED + (12, 16) and i.lo is not None and i.lo < 0:
        i.lo, i.hi = 0, max(i.hi, 2)
    if t in cases.INTS and i.lo is not None and i.hi - i.lo <= 1:
        i.lo, i.hi = np.floor(i.lo), np.floor(i.lo) + 2


def allowed_types(op, attr):
    left_out = differences.NOT_TYPES.get((op, attr.name), ())
    all_of_them = [int(t) for t in (attr.allowed_values.list.type or cases.NUMPY)
                   if t in cases.NUMPY and t not in left_out]
    # Quantized types are generated only if the op has no other types: otherwise they are the same as integers.
    return [t for t in all_of_them if t not in cases.QUANTIZED] or all_of_them


def with_type(case, attr, t):
    """The case with another type for the type attribute `attr`; of a list, all are changed."""
    definition = op_def_registry.get(case.op)
    out = case.copy()
    inputs = [i for i, arg in zip(out.inputs, arguments(definition, case))
              if attr.name in (arg.type_attr, arg.type_list_attr) or
              (i.variable and arg.type == 20)]
    for i in inputs:
        retype(i, t)
    if attr.type == "list(type)":
        if attr.name in out.attrs:
            value = attr_value_pb2.AttrValue()
            value.list.type.extend([t] * len(out.attrs[attr.name].list.type))
            out.attrs[attr.name] = value
    elif attr.name in out.attrs or not inputs:
        out.attrs[attr.name] = attr_value_pb2.AttrValue(type=t)
    return out


def type_attributes(case):
    return [a for a in op_def_registry.get(case.op).attr if a.type in ("type", "list(type)")]


def change_type(case, rng):
    """Another allowed type for one type attribute."""
    choices = type_attributes(case)
    if not choices:
        return None
    attr = choices[rng.integers(len(choices))]
    allowed = allowed_types(case.op, attr)
    return with_type(case, attr, allowed[rng.integers(len(allowed))])


# ---- shapes ----

def free_inputs(case):
    return [i for i in case.inputs if i.literal is None]


def resize(case, old, new):
    """One size replaced everywhere."""
    out = case.copy()
    for i in free_inputs(out):
        i.shape = tuple(new if d == old else d for d in i.shape)
    return out


def change_shape(case, rng):
    """One size replaced everywhere; or one dimension 1; or a dimension more; or scalars; or the
    shape of one input."""
    out = case.copy()
    free = free_inputs(out)
    if not free:
        return None
    how = rng.integers(6)
    pick = free[rng.integers(len(free))]
    if how <= 1:
        sizes = sorted({d for i in free for d in i.shape})
        if not sizes:
            return None
        old, new = sizes[rng.integers(len(sizes))], int(SIZES[rng.integers(len(SIZES))])
        if rng.integers(20) == 0 and case.op not in differences.NOT_LARGE:
            new = int(rng.integers(200, 9000))
        out = resize(out, old, new)
        free = free_inputs(out)
    elif how == 2:
        if not pick.shape:
            return None
        k = rng.integers(len(pick.shape))
        pick.shape = pick.shape[:k] + (1,) + pick.shape[k + 1:]
    elif how == 3:
        extra = int(SIZES[rng.integers(8)])
        for i in free if rng.integers(2) else [pick]:
            if len(i.shape) < 5:
                i.shape = (extra,) + i.shape
    elif how == 4:
        for i in free if rng.integers(2) else [pick]:
            i.shape = i.shape[1:] if rng.integers(2) else ()
    else:
        pick.shape = tuple(int(SIZES[k]) for k in rng.integers(len(SIZES) - 2, size=rng.integers(5)))
    return out if fits(out) else None


def fits(case):
    return max((np.prod(i.shape, dtype=np.int64) for i in free_inputs(case)), default=0) <= LARGEST


def every_shape(case):
    """Empty in each of its sizes, scalar, each input repeated along one dimension, many pieces."""
    free = free_inputs(case)
    sizes = sorted({d for i in free for d in i.shape} - {0})
    for d in sizes:
        yield resize(case, d, 0)
    scalar = case.copy()
    for i in free_inputs(scalar):
        i.shape = ()
    yield scalar
    for k, i in enumerate(free if len(free) > 1 else []):
        if i.shape:
            repeated = case.copy()
            free_inputs(repeated)[k].shape = (1,) + i.shape[1:]
            yield repeated
    for d in sizes if case.op not in differences.NOT_LARGE else ():  # the largest that fits
        others = max((np.prod([s for s in i.shape if s != d], dtype=np.int64) for i in free
                      if d in i.shape), default=1)
        power = max(i.shape.count(d) for i in free)
        large = resize(case, d, int((LARGEST / max(1, others)) ** (1 / power)))
        if fits(large):
            yield large
            break


# ---- NaN and infinities ----

SPECIAL = ((np.nan,), (np.inf, -np.inf), (np.nan, np.inf, -np.inf))


def with_special(case, values):
    """The case with these among its drawn floating-point inputs; None when it draws none. Scalars stay
    numbers: most of them are settings (a learning rate, a threshold)."""
    out = case.copy()
    floats = [i for i in free_inputs(out) if i.dtype in cases.FLOATS and i.shape]
    for i in floats:
        i.special = values
    return out if floats else None


def every_special(bases):
    """The first samples that draw floating-point values, with NaN and infinities."""
    drawing = [case for case in bases if with_special(case, ())]
    for case in drawing[:2]:
        for values in SPECIAL:
            if not differences.special_differs(case.op, values):
                yield with_special(case, values)


# ---- attributes and values ----

def attributes(case):
    """Those that can be varied."""
    definition = op_def_registry.get(case.op)
    counts = {a.number_attr for a in definition.input_arg}
    return [a for a in definition.attr if a.name not in counts and
            a.name not in ("seed", "seed2") and  # two zeros mean any
            (case.op, a.name) not in differences.NOT_VARIED and (
        a.type in ("bool", "int", "list(int)", "float") or
        (a.type == "string" and a.allowed_values.list.s))]


def value_of(case, attr):
    value = attr_value_pb2.AttrValue()
    value.CopyFrom(case.attrs[attr.name] if attr.name in case.attrs else attr.default_value)
    return value


def with_attribute(case, attr, value):
    out = case.copy()
    out.attrs[attr.name] = value
    return out


def every_attribute(case):
    """Each bool both ways, each allowed string."""
    for a in attributes(case):
        value = value_of(case, a)
        if a.type == "bool":
            yield with_attribute(case, a, attr_value_pb2.AttrValue(b=not value.b))
        elif a.type == "string":
            for s in a.allowed_values.list.s:
                if s != value.s:
                    yield with_attribute(case, a, attr_value_pb2.AttrValue(s=s))


def change_attribute(case, rng):
    """A bool the other way, another allowed string, a small integer."""
    choices = attributes(case)
    if not choices:
        return None
    a = choices[rng.integers(len(choices))]
    value = value_of(case, a)
    if a.type == "bool":
        value.b = not value.b
    elif a.type == "string":
        value.s = a.allowed_values.list.s[rng.integers(len(a.allowed_values.list.s))]
    elif a.type == "float":
        value.f = value.f * float(rng.uniform(0.5, 2)) + float(rng.choice([0, 0.25]))
    elif a.type == "int":
        value.i += int(rng.integers(-2, 3))
    elif not value.list.i:
        return None
    else:
        k = rng.integers(len(value.list.i))
        value.list.i[k] += int(rng.integers(-1, 2))
    return with_attribute(case, a, value)


def change_literal(case, rng):
    """One integer among the literal ones a little larger or smaller."""
    out = case.copy()
    fixed = [i for i in out.inputs if i.literal and i.dtype in cases.INTS]
    if not fixed:
        return None
    i = fixed[rng.integers(len(fixed))]
    i.literal = list(i.literal)
    k = rng.integers(len(i.literal))
    v = int(cases._number(i.literal[k])) + int(rng.integers(-2, 3))
    i.literal[k] = str(max(v, 0) if i.dtype in cases.UNSIGNED else v)
    return out


def change_values(case, rng):
    del rng
    return case.copy()


# ---- all of them ----

CHANGES = (change_type, change_type, change_shape, change_shape, change_attribute, change_literal,
           change_values)


def systematic(bases):
    """Each type, shape and attribute value that the samples do not show, each once."""
    seen = {case.text() for case in bases}
    for case in _all_kinds(bases):
        if case.text() not in seen:
            seen.add(case.text())
            yield case


def _all_kinds(bases):
    first = bases[0]
    for attr in type_attributes(first):
        for t in allowed_types(first.op, attr):
            for case in bases:
                try:
                    changed = with_type(case, attr, t)
                except NOT_CHANGED:
                    continue
                yield changed
                break
    for case in bases:
        yield from every_attribute(case)
    for case in bases[:2]:
        yield from every_shape(case)
    yield from every_special(bases)


def random_case(bases, rng):
    """A case one to three changes away from a sample; None when the changes do not apply."""
    case = bases[rng.integers(len(bases))]
    for _ in range(rng.integers(1, 4)):
        try:
            changed = CHANGES[rng.integers(len(CHANGES))](case, rng)
        except NOT_CHANGED:
            return None
        case = changed or case
    return case
