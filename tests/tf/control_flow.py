# SPDX-License-Identifier: Apache-2.0
"""Our gradients through functions, branches and loops against tf.gradients: first and second ones.

A model takes a placeholder of three doubles and gives a scalar. It is built by TensorFlow, exported
before TensorFlow differentiates it, and differentiated by both."""
MODELS = {}
X = [0.3, -0.7, 1.1]
PASSES = "fold,simplify,cse,fuse,place"


def model(fn):
    """Register a model; it is called with the tensorflow module, so that listing needs no import."""
    MODELS[fn.__name__] = fn
    return fn


@model
def call(tf, x):
    @tf.function
    def f(a, b):
        return a * tf.tanh(b), tf.exp(b)
    p, q = f(x, tf.sin(x))
    return tf.reduce_sum(p * q)


@model
def calls_in_calls(tf, x):
    @tf.function
    def f(a):
        return tf.sin(a) * a

    @tf.function
    def h(a):
        return f(f(a)) + tf.square(a)
    return tf.reduce_sum(h(x) * h(tf.exp(x)))


@model
def random_in_a_call(tf, x):
    @tf.function
    def f(a):
        return a * a * tf.random.stateless_uniform(tf.shape(a), [1, 2], dtype=a.dtype)
    return tf.reduce_sum(f(x))


@model
def branches(tf, x):
    def pick(p):
        return tf.cond(p, lambda: tf.sin(x) * x, lambda: tf.exp(x))
    return tf.reduce_sum(pick(tf.reduce_sum(x) > 0) * pick(tf.reduce_sum(x) > 100))


@model
def branch_without_gradient(tf, x):
    y = tf.cond(tf.reduce_sum(x) > 100, lambda: tf.square(x), lambda: tf.ones_like(x))
    return tf.reduce_sum(y * x)


@model
def cases(tf, x):
    def pick(i):
        return tf.switch_case(tf.constant(i) + tf.cast(x[0] > 9, tf.int32),
                              [lambda: tf.sin(x), lambda: x * x, lambda: tf.exp(x) * x])
    return tf.reduce_sum(pick(0) * pick(1) * pick(2) * pick(7))


@model
def loop(tf, x):
    _, y, _ = tf.while_loop(lambda i, h, w: i < 5, lambda i, h, w: (i + 1, tf.tanh(h * w) + x, w),
                            (0, x, tf.exp(x)), maximum_iterations=4)
    return tf.reduce_sum(y)


@model
def loop_that_never_turns(tf, x):
    _, y = tf.while_loop(lambda i, h: i < 0, lambda i, h: (i + 1, h * h), (0, tf.sin(x)))
    return tf.reduce_sum(y)


@model
def loop_until_a_value(tf, x):
    y = tf.while_loop(lambda h: tf.reduce_sum(h * h) < 100, lambda h: (h * (1.5 + x * x),), (x,))[0]
    return tf.reduce_sum(y)


@model
def loop_that_grows(tf, x):
    _, y = tf.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, tf.concat([h, tf.sin(h)], 0)), (0, x),
                         shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])))
    return tf.reduce_sum(y * y)


@model
def loops_in_loops(tf, x):
    def inner(i, h):
        return tf.while_loop(lambda j, a: j < i + 1, lambda j, a: (j + 1, tf.sin(a) * h), (0, h))[1]
    _, y = tf.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, inner(i, h) + x), (0, x))
    return tf.reduce_sum(y)


@model
def branch_in_a_loop(tf, x):
    def body(i, h):
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: tf.sin(h) * x, lambda: h * h + 1)
    _, y = tf.while_loop(lambda i, h: i < 5, body, (0, x))
    return tf.reduce_sum(y)


@model
def loop_in_a_branch(tf, x):
    def turn():
        return tf.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, tf.sin(h) * x), (0, x))[1]
    return tf.reduce_sum(tf.cond(tf.reduce_sum(x) < 100, turn, lambda: x))


@model
def call_in_a_loop(tf, x):
    @tf.function
    def f(a, b):
        return tf.tanh(a) * b
    _, y = tf.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, f(h, tf.constant(2., h.dtype)) * x),
                         (0, x))
    return tf.reduce_sum(y)


@model
def rnn(tf, x):
    w = x[:, None] * tf.sin(x)[None, :]
    rows = tf.cast(tf.range(5), x.dtype)[:, None] * x
    ta_in = tf.TensorArray(x.dtype, 5).unstack(rows)
    ta_out = tf.TensorArray(x.dtype, 5, element_shape=[1, 3])

    def body(t, h, out):
        h = tf.tanh(h @ w + ta_in.read(t)[None, :])
        return t + 1, h, out.write(t, h)
    _, h, out = tf.while_loop(lambda t, h, o: t < 5, body, (0, x[None, :], ta_out))
    return tf.reduce_sum(out.stack() ** 2) + tf.reduce_sum(h)


@model
def scan(tf, x):
    y = tf.scan(lambda a, b: tf.sin(a) * b, tf.stack([x, x * x, tf.exp(x)]), initializer=x)
    return tf.reduce_sum(y)


@model
def map_fn(tf, x):
    return tf.reduce_sum(tf.map_fn(lambda a: a * tf.sin(a) * x[0], x))


@model
def autograph(tf, x):
    @tf.function
    def f(a):
        y = a
        for i in tf.range(4):
            if i % 2 == 0:
                y = y * tf.sin(a)
            else:
                y = y + a * a
        return y
    return tf.reduce_sum(f(x))


@model
def variables(tf, x):
    v = tf.compat.v1.get_variable("v", initializer=tf.constant([2., 3., 4.], x.dtype),
                                  use_resource=True)

    @tf.function
    def f(a):
        return a * v

    def body(i, h):
        return i + 1, tf.cond(tf.equal(i, 1), lambda: h, lambda: f(h) + v)
    return tf.reduce_sum(tf.while_loop(lambda i, h: i < 3, body, (0, x))[1])


NAMES = sorted(MODELS)


def square(tf, tensors):
    """The sum of the squares of all elements, a node called square."""
    return tf.add_n([tf.reduce_sum(t * t) for t in tensors], name="square")


def theirs(tf, name):
    """The model, as bytes, and what TensorFlow makes of it: names of the inputs, and the values of
    the result, its gradients, and the gradient of the sum of their squares."""
    import oracle
    graph = tf.Graph()
    tf.compat.v1.enable_control_flow_v2()  # functional: If and While, not Switch and frames
    with graph.as_default():
        x = tf.compat.v1.placeholder(tf.float64, [3], name="x")
        y = tf.identity(MODELS[name](tf, x), name="y")
        variables = tf.compat.v1.global_variables()
        tf.group(*[v.initializer for v in variables], name="init")
        exported = graph.as_graph_def().SerializeToString()
        xs = [x] + [v.handle for v in variables]
        first = tf.gradients(y, xs)
        second = tf.gradients(square(tf, first), x)
    tf.compat.v1.disable_control_flow_v2()
    fetches = [t.name for t in [y] + first + second]
    got = oracle.run_tf(graph, [([], {}, ["init"]), (fetches, {"x:0": X}, [])])
    return exported, [t.name for t in xs], got


def ours(tf, exported, xs):
    """The exported graph with our gradients, and the names of what corresponds."""
    import gradients
    graph, first = gradients.ours(exported, ["y:0"], xs, [])
    graph, second = gradients.ours(with_square(tf, graph, first), ["square:0"], ["x:0"], [])
    return graph, ["y:0"] + first + second


def values(tf, graph, fetches):
    """What these are, by whom: us with and without passes, and TensorFlow, which so checks that our
    functions are well made."""
    import numpy as np
    import oracle
    steps = [([], {}, ["init"]), (fetches, {"x:0": np.array(X)}, [])]
    yield "with passes", oracle.run_mf(graph, steps)
    yield "without passes", oracle.run_mf(graph, steps, disable=PASSES)
    yield "run by TensorFlow", oracle.run_tf(
        oracle.tf_graph(tf.compat.v1.GraphDef.FromString(graph)), steps)


def with_square(tf, graph_bytes, outputs):
    """The graph with the node "square" over these outputs."""
    other = tf.Graph()
    with other.as_default():
        square(tf, [tf.compat.v1.placeholder(tf.float64, None, name="in%d" % i)
                    for i in range(len(outputs))])
    graph_def = tf.compat.v1.GraphDef.FromString(graph_bytes)
    given = {"in%d" % i: o for i, o in enumerate(outputs)}
    mine = lambda n: n if n == "square" else "of_square/" + n
    for node in other.as_graph_def().node:
        if node.name not in given:
            new = graph_def.node.add()
            new.CopyFrom(node)
            new.name = mine(node.name)
            new.input[:] = [given.get(i) or mine(i) for i in node.input]
    return graph_def.SerializeToString()


def check(name, progress):
    import differential
    import meshflow_lib as mf
    import oracle
    import tensorflow as tf
    report = differential.Report(name)
    progress("tensorflow " + name, 0, report)
    exported, xs, want = theirs(tf, name)
    progress("meshflow " + name, 0, report)
    try:
        graph, fetches = ours(tf, exported, xs)
    except mf.Error as e:
        report.fail(name, str(e))
        return report
    for how, got in values(tf, graph, fetches):
        if isinstance(got, oracle.Failure) or isinstance(want, oracle.Failure):
            report.fail(how, "%r, TensorFlow: %r" % (got, want))
            continue
        for fetch, a, b in zip(fetches, got[-1], want[-1]):
            if a.shape != b.shape or abs(a - b).max(initial=0) > 1e-9 * max(1, abs(b).max()):
                report.fail(how, "%s is %s, TensorFlow has %s" % (fetch, a, b))
        report.compared += 1
    return report
