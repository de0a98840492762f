# SPDX-License-Identifier: Apache-2.0
"""Every op against TensorFlow: its samples, and cases derived from them by changing types, shapes,
attributes and values."""
import zlib

import numpy as np
from tensorflow.core.framework import attr_value_pb2
from tensorflow.python.framework import op_def_registry

import cases
import oracle

# Samples marked !fails that fail with another status than TensorFlow's: op -> (ours, theirs), why.
STATUS_EXCEPTIONS = {
    # "Unexpected error in binary operator": TensorFlow forgot these two. FloorDiv says it right.
    "TruncateDiv": ("INVALID_ARGUMENT", "INTERNAL"),
    "TruncateMod": ("INVALID_ARGUMENT", "INTERNAL"),
}
# Ops that refuse other generated inputs than TensorFlow does, and why. Their answers are compared.
CHECKS_SHAPES = "shapes that do not belong together are refused; TensorFlow reads them somehow"
REFUSES_OTHERWISE = {
    **dict.fromkeys(["AvgPoolGrad", "ResourceScatterAdd", "ResourceScatterSub", "ResourceScatterMul",
                     "ResourceScatterDiv", "ResourceScatterMin", "ResourceScatterMax",
                     "ResourceScatterUpdate", "FusedBatchNormV3", "FusedBatchNormGradV3",
                     "DepthwiseConv2dNativeBackpropFilter", "DepthwiseConv2dNativeBackpropInput",
                     "ReverseV2"], CHECKS_SHAPES),
    "PlaceholderWithDefault": "the promised shape is checked when it is run, too",
    "EnsureShape": "TensorFlow's shape function refuses an unknown shape where its kernel does not",
    "BroadcastArgs": "sizes below 0 are refused",
    "BroadcastGradientArgs": "sizes below 0 are refused",
}
# Ops compared in no way, and why.
SESSION_STATE = "fails as on TensorFlow's gRPC servers; a session of its own process has state"
NOT_COMPARED = {
    **dict.fromkeys(["GetSessionHandle", "GetSessionHandleV2", "GetSessionTensor",
                     "DeleteSessionTensor"], SESSION_STATE),
}
# Attributes that are not varied, and why.
NOT_VARIED = {
    ("Empty", "init"): "without, TensorFlow's values are whatever memory held",
    ("TopK", "sorted"): "without, the order is anyone's",
    ("TopKV2", "sorted"): "without, the order is anyone's",
}


def generator(seed, name, index=0):
    return np.random.default_rng([seed, zlib.crc32(name.encode()), index])


class Report:
    """What happened to one op."""

    def __init__(self, name):
        self.name = name  # lacking: types TensorFlow has no kernel for; missing: we have none
        self.failures, self.types, self.lacking, self.missing = [], set(), set(), set()
        self.compared = self.refused = self.no_kernel = self.not_compared = 0
        self.samples = 0
        self.tolerance = 0.0

    def fail(self, case, what):
        self.failures.append("%s \"%s\": %s" % (self.name, case, what))


def steps(built):
    out = []
    if built.init:
        out.append(([], {}, ["init"]))
    out.append((built.fetches, built.feeds, [] if built.fetches else ["op"]))
    if built.after:
        out.append((built.after, {}, []))
    return out


def type_of(case, built):
    """The type a case counts for in the coverage table."""
    for i in case.inputs:
        if i.literal is None or i.variable:
            return i.dtype
    return built.types[0] % 100 if built.types else case.inputs[0].dtype if case.inputs else 0


def compare(case, index, seed, report, is_sample, progress):
    """One case on both sides."""
    text = case.text()
    rng = generator(seed, "values of " + case.op, index)
    try:
        built = cases.build(case, rng, not is_sample and bool(rng.integers(2)))
    except (ValueError, KeyError, TypeError, OverflowError) as e:
        if is_sample and not case.fails:
            report.fail(text, "cannot be built: %s" % e)
        return
    say = lambda side: progress("%s %s \"%s\"" % (side, case.op, text), index, report)
    both = run_both(built, say)
    failed = [isinstance(x, oracle.Failure) for x in both]
    if (case.fails and not failed[1]) or failed[0] != failed[1]:
        # Some shape functions insist on known ranks; some only refuse what they know.
        if not oracle.no_kernel(both[1]):
            built = cases.Built(case, built.values, not built.shapes)
            both = run_both(built, say)
    judge(case, built, *both, report, is_sample, text)


def run_both(built, say):
    """(ours, theirs)"""
    todo = steps(built)
    say("meshflow")
    ours = oracle.run_mf(built.graph.SerializeToString(), todo)
    say("tensorflow")
    return ours, oracle.run_tf(oracle.tf_graph(built.graph), todo)


def judge(case, built, ours, theirs, report, is_sample, text):
    failed = isinstance(ours, oracle.Failure), isinstance(theirs, oracle.Failure)
    if oracle.no_kernel(theirs):
        report.no_kernel += 1
        if not failed[0]:
            report.lacking.add(type_of(case, built))
        return
    if case.fails:
        if not failed[1]:
            report.fail(text, "must fail, but TensorFlow has an answer")
        elif not failed[0]:
            report.fail(text, "must fail, but has an answer")
        elif (ours.name != theirs.name and
              STATUS_EXCEPTIONS.get(case.op) != (ours.name, theirs.name)):
            report.fail(text, "fails with %r, TensorFlow with %r" % (ours, theirs))
        report.refused += 1
        return
    if failed[0] and not failed[1] and "has no kernel for type" in ours.message:
        report.missing.add(type_of(case, built))
        return
    if failed[0] != failed[1] and not is_sample and case.op in REFUSES_OTHERWISE:
        report.refused += 1
        return
    if failed[0] != failed[1]:
        report.fail(text, "%s; TensorFlow: %s" % (
            ours if failed[0] else "has an answer", theirs if failed[1] else "has an answer"))
        return
    if failed[0]:
        report.refused += 1
        return
    for a_step, b_step in zip(ours, theirs):
        for k, (a, b) in enumerate(zip(a_step, b_step)):
            what = difference(case, built, a, b)
            if what:
                report.fail(text, "output %d: %s" % (k, what))
                return
    report.compared += 1
    report.types.add(type_of(case, built))
    report.tolerance = max(report.tolerance, case.tolerance or 0)


def terms(built, output):
    """About how many numbers are added up for one element: exact for reductions and products."""
    sizes = [v.size for v in built.values if v.dtype.kind not in "OSU"]
    n = max(1, output.size)
    return max(max(sizes, default=1) / n, np.sqrt(np.prod([float(s) for s in sizes[:2]]) / n))


def difference(case, built, a, b):
    if case.unordered:
        same = a.shape == b.shape and (a.dtype == b.dtype or b.dtype.kind in "OSU")
        return "" if same else "%s%s, TensorFlow has %s%s" % (a.dtype, a.shape, b.dtype, b.shape)
    return oracle.close(a, b, case.tolerance, terms(built, b))


# ---- generated cases ----

def change_type(case, rng):
    """Another allowed type for one type attribute."""
    definition = op_def_registry.get(case.op)
    choices = [a for a in definition.attr if a.type == "type"]
    if not choices:
        return None
    attr = choices[rng.integers(len(choices))]
    allowed = [t for t in (attr.allowed_values.list.type or cases.NUMPY) if t in cases.NUMPY]
    t = int(allowed[rng.integers(len(allowed))])
    out = case.copy()
    if attr.name in out.attrs:
        out.attrs[attr.name] = attr_value_pb2.AttrValue(type=t)
    bound = False
    flat = _expand(definition, case)
    for i, arg in zip(out.inputs, flat):
        if arg.type_attr == attr.name or (i.variable and arg.type == 20):
            retype(i, t)
            bound = True
    if not bound and attr.name not in out.attrs:
        out.attrs[attr.name] = attr_value_pb2.AttrValue(type=t)
    return out


def _expand(definition, case):
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
                v = 0 if not np.isfinite(v) else int(np.clip(v, -100, 100))
                words.append(str(abs(v) if t in cases.UNSIGNED else v))
            i.literal = words
    if t in cases.UNSIGNED and i.lo is not None and i.lo < 0:
        i.lo, i.hi = 0, max(i.hi, 2)
    if t in cases.INTS and i.lo is not None and i.hi - i.lo <= 1:
        i.lo, i.hi = np.floor(i.lo), np.floor(i.lo) + 2


SIZES = (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33)


def change_shape(case, rng):
    """One size replaced everywhere; or one dimension 1; or a dimension more; or scalars; or the
    shape of one input."""
    out = case.copy()
    free = [i for i in out.inputs if i.literal is None]
    if not free:
        return None
    how = rng.integers(6)
    pick = free[rng.integers(len(free))]
    if how <= 1:
        sizes = sorted({d for i in free for d in i.shape})
        if not sizes:
            return None
        old, new = sizes[rng.integers(len(sizes))], int(SIZES[rng.integers(len(SIZES))])
        for i in free:
            i.shape = tuple(new if d == old else d for d in i.shape)
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
    if max(np.prod(i.shape, dtype=np.int64) for i in free) > 20000:
        return None
    return out


def change_attribute(case, rng):
    """A bool the other way, another allowed string, a small integer."""
    definition = op_def_registry.get(case.op)
    named = {a.number_attr for a in definition.input_arg}
    choices = [a for a in definition.attr if a.name not in named and
               (case.op, a.name) not in NOT_VARIED and (
        a.type in ("bool", "int", "list(int)", "float") or
        (a.type == "string" and a.allowed_values.list.s))]
    if not choices:
        return None
    a = choices[rng.integers(len(choices))]
    out = case.copy()
    value = attr_value_pb2.AttrValue()
    value.CopyFrom(out.attrs[a.name] if a.name in out.attrs else a.default_value)
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
    out.attrs[a.name] = value
    return out


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


CHANGES = (change_type, change_type, change_shape, change_shape, change_attribute, change_literal,
           change_values)


def generate(bases, rng):
    """A case one to three changes away from a sample; None when the changes do not apply."""
    case = bases[rng.integers(len(bases))]
    for _ in range(rng.integers(1, 4)):
        try:
            changed = CHANGES[rng.integers(len(CHANGES))](case, rng)
        except (ValueError, KeyError):
            return None
        case = changed or case
    return case


def check(op, seed, generated, start, progress):
    """Cases number `start` and following of one op: its samples, then generated ones. progress(what,
    index, report) is told before each run."""
    report = Report(op.name)
    if op_def_registry.get(op.name) is None or op.name in NOT_COMPARED:
        return report
    bases = []
    for index, text in enumerate(op.samples):
        try:
            case = cases.parse(op.name, text)
        except (ValueError, KeyError) as e:
            report.fail(text, "cannot be read: %s" % e)
            continue
        if not case.fails and not case.no_tf:
            bases.append(case)
        if index < start:
            continue
        report.samples += 1
        if case.no_tf:
            report.not_compared += 1
            continue
        compare(case, index, seed, report, True, progress)
    for index in range(max(start, len(op.samples)), len(op.samples) + generated if bases else 0):
        case = generate(bases, generator(seed, op.name, index))
        if case:
            compare(case, index, seed, report, False, progress)
    return report
