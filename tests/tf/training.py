# SPDX-License-Identifier: Apache-2.0
"""Optimizers, schedules, clipping and averages against TensorFlow and Keras: the same gradients for a
hundred steps, then the weights, and by their names in a checkpoint the slots.

The model produces prescribed gradients. For `|sum(w * g) - label|` with a label far below, the gradient with respect to w
is exactly g: the batch is a power of two, so dividing by it and multiplying again does not round."""
import os
import tempfile

STEPS, BATCH, ROWS, COLUMNS, IDS = 100, 16, 16, 8, 3
TOLERANCE = 1e-6  # of the largest number of a weight or slot
KERNEL, BIAS, TABLE = "dense/kernel", "dense/bias", "embedding/embeddings"

# name: ours, theirs as Python text (tf, keras, v1 are there), sparse or not, what else to compile with
CASES = {}


def optimizer(name, ours, theirs, dense=True, sparse=True, **options):
    for kind in ["dense"] * dense + ["sparse"] * sparse:
        CASES["%s, %s" % (name, kind)] = dict(ours=ours, theirs=theirs, sparse=kind == "sparse", options=options)


optimizer("sgd", "sgd learning_rate=0.05", "v1.train.GradientDescentOptimizer(0.05)")
optimizer("momentum", "momentum learning_rate=0.02", "v1.train.MomentumOptimizer(0.02, 0.9)")
optimizer("momentum, Nesterov", "momentum learning_rate=0.02 momentum=0.8 nesterov=true",
          "v1.train.MomentumOptimizer(0.02, 0.8, use_nesterov=True)")
optimizer("adagrad", "adagrad learning_rate=0.05", "v1.train.AdagradOptimizer(0.05)")
optimizer("adagrad as Keras", "adagrad learning_rate=0.05", "keras.optimizers.Adagrad(0.05)", sparse=False)
optimizer("rmsprop", "rmsprop", "v1.train.RMSPropOptimizer(0.001, epsilon=1e-7)")
optimizer("rmsprop, momentum", "rmsprop rho=0.8 momentum=0.5 epsilon=0.001",
          "v1.train.RMSPropOptimizer(0.001, decay=0.8, momentum=0.5, epsilon=1e-3)")
optimizer("rmsprop, centered", "rmsprop centered=true momentum=0.3 epsilon=0.001",
          "v1.train.RMSPropOptimizer(0.001, momentum=0.3, epsilon=1e-3, centered=True)")
optimizer("rmsprop as Keras", "rmsprop", "keras.optimizers.RMSprop()", sparse=False)
optimizer("adam", "adam", "v1.train.AdamOptimizer(0.001, epsilon=1e-7)")
optimizer("adam, large steps", "adam learning_rate=0.02 beta_1=0.8 beta_2=0.95 epsilon=0.001",
          "v1.train.AdamOptimizer(0.02, 0.8, 0.95, 1e-3)")
optimizer("adam as Keras", "adam", "keras.optimizers.Adam()")
optimizer("adam, AMSGrad", "adam amsgrad=true", "keras.optimizers.Adam(amsgrad=True)")
optimizer("adam, lazy", "adam lazy=true", "LazyAdam()", dense=False)
optimizer("adamw", "adamw weight_decay=0.1", "keras.optimizers.AdamW(0.001, weight_decay=0.1)")
optimizer("adafactor", "adafactor learning_rate=0.01", "keras.optimizers.Adafactor(0.01)")
optimizer("ftrl", "ftrl learning_rate=0.05", "v1.train.FtrlOptimizer(0.05)")
optimizer("ftrl, l1 and l2", "ftrl learning_rate=0.05 l1_regularization_strength=0.02 "
          "l2_regularization_strength=0.03 l2_shrinkage_regularization_strength=0.01",
          "v1.train.FtrlOptimizer(0.05, l1_regularization_strength=0.02, l2_regularization_strength=0.03, "
          "l2_shrinkage_regularization_strength=0.01)")
optimizer("ftrl, another power", "ftrl learning_rate=0.05 learning_rate_power=-0.7",
          "v1.train.FtrlOptimizer(0.05, learning_rate_power=-0.7)")
optimizer("ftrl, beta", "ftrl learning_rate=0.05 beta=0.1", "keras.optimizers.Ftrl(0.05, beta=0.1)", sparse=False)
optimizer("lamb", "lamb", "keras.optimizers.Lamb()")
optimizer("sgd that decays", "sgd learning_rate=0.05", "keras.optimizers.SGD(0.05, weight_decay=0.1)",
          weight_decay=0.1)
optimizer("lamb that decays", "lamb", "keras.optimizers.Lamb(weight_decay=0.1)", weight_decay=0.1)

# Ours, theirs; the whole training has STEPS steps. RATE is a double: with floats, Keras loses digits where
# the cosine ends.
SCHEDULES = {
    "constant": ("constant", "0.1"),
    "step": ("step at=[20,50] drop=0.1", "piecewise([20, 50], 0.1)"),
    "exponential": ("exponential every=30 decay=0.7", "S.ExponentialDecay(RATE, 30, 0.7)"),
    "exponential in stairs": ("exponential every=30 decay=0.7 staircase=true",
                              "S.ExponentialDecay(RATE, 30, 0.7, staircase=True)"),
    "cosine": ("cosine", "S.CosineDecay(RATE, 100)"),
    "cosine that ends above 0": ("cosine end=0.2 steps=60", "S.CosineDecay(RATE, 60, alpha=0.2)"),
    "cosine with warm-up": ("cosine warmup=20",
                            "lambda i: 0.1 * (i + 1) / 20 if i < 20 else S.CosineDecay(RATE, 80)(i - 20)"),
}
CLIPS = {"value": "value=0.5", "norm": "norm=0.7", "global norm": "global_norm=0.7",
         "norm that is not reached": "norm=1000", "global norm that is not reached": "global_norm=1000"}
SERVED = [n for n in CASES if n.startswith("ftrl") and CASES[n]["theirs"].startswith("v1")]
NAMES = (list(CASES) + ["servers, " + n for n in SERVED] + ["schedule " + n for n in SCHEDULES] + ["clip by " + n for n in CLIPS] +
         ["moving average", "partitioners"])


def build(model, sparse):
    """The model whose gradients are the column g."""
    import numpy as np
    f32 = np.float32
    if sparse:
        ids = model.input("ids", np.zeros([BATCH, IDS], np.int32))
        y = model.layer("Embedding", [ids], "input_dim=%d output_dim=%d" % (ROWS, COLUMNS))
        g = model.input("g", np.zeros([BATCH, IDS, COLUMNS], f32))
    else:
        x = model.input("x", np.zeros([BATCH, ROWS], f32))
        y = model.layer("Dense", [x], "units=%d" % COLUMNS)
        g = model.input("g", np.zeros([BATCH, COLUMNS], f32))
    product = model.layer("Flatten", [model.apply("Mul", [y, g])])
    axis = model.apply("Const", [], "dtype=int32 value=int32[1]{1}")
    model.end(model.apply("Sum", [product, axis], "keep_dims=true"))


def gradients(rng, sparse):
    """(columns for our model, for each step the gradients by name: dense, or (ids, rows))"""
    import numpy as np
    n = STEPS * BATCH
    size = np.exp(rng.normal(size=[STEPS, 1, 1, 1])) * 0.3
    g = (rng.normal(size=[STEPS, BATCH, IDS if sparse else 1, COLUMNS]) * size).astype(np.float32)
    columns = {"label": np.full([n], -1e6, np.float32)}
    steps = []
    if sparse:
        ids = rng.integers(0, ROWS, [STEPS, BATCH, IDS]).astype(np.int32) // 2 * 2  # odd rows are never used
        ids[::7] = 4
        columns["ids"] = ids.reshape(n, IDS)
        for i, part in zip(ids, g.astype(np.float64)):
            rows = np.unique(i)
            steps.append({TABLE: (rows, np.stack([part[i == r].sum(0) for r in rows]).astype(np.float32))})
    else:
        g = g[:, :, 0]
        columns["x"] = np.tile(np.eye(ROWS, dtype=np.float32), [STEPS, 1])
        steps = [{KERNEL: part, BIAS: part.astype(np.float64).sum(0).astype(np.float32)} for part in g]
    columns["g"] = (g * BATCH).reshape((n,) + g.shape[2:])
    return columns, steps


def start_values(rng, sparse):
    import numpy as np
    kernel = rng.normal(size=[ROWS, COLUMNS]).astype(np.float32)
    return {TABLE: kernel} if sparse else {KERNEL: kernel, BIAS: rng.normal(size=[COLUMNS]).astype(np.float32)}


def run_ours(columns, values, steps=STEPS, **options):
    """(contents of the checkpoint after this many steps, learning rates)"""
    import tensorflow as tf
    import model_lib
    import trainer_lib
    model, trainer = model_lib.Model(), None
    with tempfile.TemporaryDirectory() as folder:
        before, after = os.path.join(folder, "before"), os.path.join(folder, "after")
        tf.raw_ops.SaveV2(prefix=before, tensor_names=list(values), shape_and_slices=[""] * len(values),
                          tensors=list(values.values()))
        try:
            build(model, TABLE in values)
            trainer = trainer_lib.Trainer(model, loss="mean_absolute_error", **options)
            trainer.load(before)
            rates = trainer.fit(columns, steps, BATCH)
            trainer.save(after)
        finally:
            if trainer:
                trainer.close()
            model.close()
        reader = tf.train.load_checkpoint(after)
        return {n: reader.get_tensor(n) for n in reader.get_variable_to_shape_map()}, rates


def fit_served(task, columns, values, folder, steps, weights, **options):
    """One task of a job with parameter servers; weights: list to which the chief appends its weights after each step."""
    import model_lib
    import trainer_lib
    strategy, model, trainer = trainer_lib.Strategy(*task), model_lib.Model(), None
    chief = task[2:] == ("worker", 0)
    try:
        build(model, TABLE in values)
        trainer = trainer_lib.Trainer(model, loss="mean_absolute_error", strategy=strategy.strategy.value, **options)
        if chief:
            trainer.load(os.path.join(folder, "before"))

        def note():
            weights.append({n: trainer.get(n) for n in values})
        trainer.fit(columns, steps, BATCH, out=os.path.join(folder, "out"), then=note if chief else None)
    finally:
        if trainer:
            trainer.close()
        model.close()
        strategy.close()


def run_served(columns, values, workers=2, servers=2, text="parameter_server", **options):
    """(what the last checkpoint holds, of which each server has written a part; the weights after every step)"""
    import concurrent.futures
    import tensorflow as tf
    names = [("worker", i) for i in range(workers)] + [("ps", i) for i in range(servers)]
    cluster, weights = {}, []
    with tempfile.TemporaryDirectory() as folder:
        for i, (job, _) in enumerate(names):
            cluster.setdefault(job, []).append("served-%s:%d" % (os.path.basename(folder), i + 1))
        tf.raw_ops.SaveV2(prefix=os.path.join(folder, "before"), tensor_names=list(values),
                          shape_and_slices=[""] * len(values), tensors=list(values.values()))
        with concurrent.futures.ThreadPoolExecutor(len(names)) as pool:
            failed = [f.exception() for f in
                      [pool.submit(fit_served, (text, cluster, *task), columns, values, folder, STEPS, weights,
                                   **options) for task in names]]
        if any(failed):
            raise RuntimeError("%s" % [str(e) for e in failed if e])
        prefix = tf.train.latest_checkpoint(os.path.join(folder, "out"))
        parts = [x for x in os.listdir(os.path.join(folder, "out")) if ".data-" in x]
        if len(parts) != servers + 1:
            raise RuntimeError("the servers have not written their parts: %s" % parts)
        reader = tf.train.load_checkpoint(prefix)
        return {n: reader.get_tensor(n) for n in reader.get_variable_to_shape_map()}, weights


class LazyAdam:
    """TensorFlow's Adam op on the given rows: it has no sparse one."""

    def apply_gradients(self, pairs):
        import tensorflow as tf
        (g, v), = pairs
        if not hasattr(self, "m"):
            self.m, self.v, self.powers = tf.zeros_like(v), tf.zeros_like(v), [0.9, 0.999]
        parts = [tf.Variable(tf.gather(x, g.indices)) for x in (v, self.m, self.v)]
        tf.raw_ops.ResourceApplyAdam(
            var=parts[0].handle, m=parts[1].handle, v=parts[2].handle, beta1_power=self.powers[0],
            beta2_power=self.powers[1], lr=0.001, beta1=0.9, beta2=0.999, epsilon=1e-7, grad=g.values)
        at = g.indices[:, None]
        v.assign(tf.tensor_scatter_nd_update(v, at, parts[0]))
        self.m = tf.tensor_scatter_nd_update(self.m, at, parts[1])
        self.v = tf.tensor_scatter_nd_update(self.v, at, parts[2])
        self.powers = [self.powers[0] * 0.9, self.powers[1] * 0.999]


def run_keras(text, values, steps):
    """The weights. Sparse gradients are dense ones to Keras."""
    import keras
    import numpy as np
    import tensorflow as tf
    o = eval(text, dict(keras=keras, LazyAdam=LazyAdam))  # pylint: disable=eval-used
    variables = {n: keras.Variable(v, name=n.replace("/", "_")) for n, v in values.items()}
    if isinstance(o, LazyAdam):
        variables = {n: tf.Variable(v) for n, v in values.items()}
    else:
        o.exclude_from_weight_decay(var_names=["bias"])
    for at in steps:
        pairs = []
        for n, v in variables.items():
            g = at[n]
            if isinstance(g, tuple):
                g = tf.IndexedSlices(tf.constant(g[1]), tf.constant(g[0]), values[n].shape)
            pairs.append((g if isinstance(o, LazyAdam) else tf.convert_to_tensor(g), v))
        o.apply_gradients(pairs)
    return {n: np.asarray(v) for n, v in variables.items()}


def run_v1(text, values, steps, weights=None):
    """All variables by their Saver names; weights: list of their values after each step."""
    import numpy as np
    import tensorflow as tf
    import tensorflow.compat.v1 as v1
    with tf.Graph().as_default(), v1.Session() as session:
        o = eval(text, dict(v1=v1))  # pylint: disable=eval-used
        feeds, pairs = {}, []
        for n, v in values.items():
            variable = v1.get_variable(n, initializer=v, use_resource=True)
            g = v1.placeholder(tf.float32, [None] + list(v.shape[1:]))
            feeds[n] = [g]
            if isinstance(steps[0][n], tuple):
                feeds[n].append(v1.placeholder(tf.int32, [None]))
                g = tf.IndexedSlices(g, feeds[n][1], v.shape)
            pairs.append((g, variable))
        train = o.apply_gradients(pairs)
        session.run(v1.global_variables_initializer())
        if isinstance(o, v1.train.RMSPropOptimizer):  # its mean squares begin at 1, those of Keras at 0
            for _, variable in pairs:
                o.get_slot(variable, "rms").load(np.zeros(variable.shape, np.float32), session)
        for at in steps:
            feed = {}
            for n, places in feeds.items():
                feed.update(zip(places, reversed(at[n]) if isinstance(at[n], tuple) else [at[n]]))
            session.run(train, feed)
            if weights is not None:
                weights.append({n: session.run(v) for n, (_, v) in zip(values, pairs)})
        return {v.op.name: session.run(v) for v in v1.global_variables()}


def differs(what, ours, theirs, tolerance):
    import numpy as np
    if ours is None:
        return ["there is no %s" % what]
    ours, theirs = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if ours.shape != theirs.shape:
        return ["%s has shape %s, not %s" % (what, ours.shape, theirs.shape)]
    worst = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    return [] if worst <= tolerance else ["%s differs by %.3g of the largest" % (what, worst)]


def check_optimizer(case, seed):
    import numpy as np
    rng = np.random.default_rng(seed)
    values = start_values(rng, case["sparse"])
    columns, steps = gradients(rng, case["sparse"])
    ours, _ = run_ours(columns, values, optimizer=case["ours"], **case["options"])
    theirs = (run_v1 if case["theirs"].startswith("v1") else run_keras)(case["theirs"], values, steps)
    bad = []
    for name, value in theirs.items():
        bad += differs(name, ours.get(name), value, TOLERANCE)
    return bad


def check_served(case, seed):
    """After each step the weights, in the end the slots: of two workers and two servers."""
    import numpy as np
    rng = np.random.default_rng(seed)
    values = start_values(rng, case["sparse"])
    columns, steps = gradients(rng, case["sparse"])
    ours, by_step = run_served(columns, values, optimizer=case["ours"], **case["options"])
    want_by_step, bad = [], []
    theirs = run_v1(case["theirs"], values, steps, want_by_step)
    if len(by_step) != STEPS or len(want_by_step) != STEPS:
        return ["%d steps, not %d" % (len(by_step), STEPS)]
    for i, (got, want) in enumerate(zip(by_step, want_by_step)):
        bad += [d for n in values for d in differs("%s after step %d" % (n, i + 1), got[n], want[n], TOLERANCE)]
    for name, value in theirs.items():
        bad += differs(name, ours.get(name), value, TOLERANCE)
    return bad


def shards_of(setting, folder):
    """By name: shape, and into how many shards the servers' weights are cut, of a net that has tables, too."""
    import re
    import subprocess
    import oplist
    import tensorflow as tf
    args = ["launch", "--workers", "1", "--ps", "2", "--", "train", "--model", "wide-deep buckets=5000", "--data",
            "synthetic-ctr", "--batch", "8", "--steps", "1", "--quiet", "--no-test", "--out", folder, "--strategy",
            "parameter_server partition=" + setting]
    r = subprocess.run([oplist.PROGRAM, *args], capture_output=True, text=True, timeout=120, check=True,
                       env=dict(os.environ, MESHFLOW_LOG="info"))
    shapes = tf.train.load_checkpoint(tf.train.latest_checkpoint(folder)).get_variable_to_shape_map()
    return {n: (shapes[n], int(k)) for n, k in re.findall(r"of (\S+), which is cut into (\d+) shards", r.stderr)}


def check_partitioners():
    import tensorflow as tf
    P = tf.distribute.experimental.partitioners
    pairs = {"fixed shards=3": P.FixedShardsPartitioner(3), "fixed shards=500": P.FixedShardsPartitioner(500),
             "min_size max_shards=7": P.MinSizePartitioner(max_shards=7),
             "min_size shard_bytes=1000 max_shards=50": P.MinSizePartitioner(1000, 50),
             "max_size shard_bytes=1000": P.MaxSizePartitioner(1000),
             "max_size shard_bytes=3000 max_shards=9": P.MaxSizePartitioner(3000, 9)}
    bad, several = [], 0
    for setting, partitioner in pairs.items():
        with tempfile.TemporaryDirectory() as folder:
            found = shards_of(setting, folder)
        if len(found) < 8:
            bad.append("%s: only %s" % (setting, found))
        for name, (shape, shards) in found.items():
            want = partitioner(tf.TensorShape(shape), tf.float32)[0]
            several += want > 1
            if shards != want:
                bad.append("%s: %s of %s has %d shards, not %d" % (setting, name, shape, shards, want))
    return bad + ([] if several > 20 else ["hardly anything was cut: %d" % several])


def check_schedule(ours, theirs):
    import keras
    import numpy as np
    S = keras.optimizers.schedules

    def piecewise(at, drop):  # Keras changes behind the boundary, we at it
        return S.PiecewiseConstantDecay([a - 1 for a in at], [0.1 * drop**i for i in range(len(at) + 1)])
    f = eval(theirs, dict(S=S, piecewise=piecewise, RATE=np.float64(0.1)))  # pylint: disable=eval-used
    want = [float(f(i)) if callable(f) else f for i in range(STEPS)]
    rng = np.random.default_rng(1)
    columns, _ = gradients(rng, False)
    _, rates = run_ours(columns, start_values(rng, False), optimizer="sgd learning_rate=0.1", schedule=ours)
    bad = [(i, a, b) for i, (a, b) in enumerate(zip(rates, want)) if abs(a - b) > 1e-6 * abs(b)]
    return ["%d of %d rates differ; at step %d it is %.9g, not %.9g" % (len(bad), STEPS, *bad[0])] if bad else []


def check_clip(name):
    """One step of descent from 0 at a rate of 1 shows the gradient."""
    import numpy as np
    import tensorflow as tf
    rng = np.random.default_rng(2)
    columns, steps = gradients(rng, False)
    values = {n: np.zeros_like(v) for n, v in start_values(rng, False).items()}
    ours, _ = run_ours(columns, values, steps=1, optimizer="sgd learning_rate=1.0", clip=CLIPS[name])
    limit = float(CLIPS[name].partition("=")[2])
    grads = [tf.constant(steps[0][n]) for n in values]
    if "global" in name:
        grads, _ = tf.clip_by_global_norm(grads, limit)
    elif "norm" in name:
        grads = [tf.clip_by_norm(g, limit) for g in grads]
    else:
        grads = [tf.clip_by_value(g, -limit, limit) for g in grads]
    return [d for n, g in zip(values, grads) for d in differs(n, -ours[n], g, TOLERANCE)]


def check_average():
    import numpy as np
    import tensorflow as tf
    import tensorflow.compat.v1 as v1
    rng = np.random.default_rng(3)
    values = start_values(rng, False)
    columns, steps = gradients(rng, False)
    ours, _ = run_ours(columns, values, optimizer="sgd learning_rate=0.05", ema=0.9)
    average = tf.train.ExponentialMovingAverage(0.9)
    variables = {n: tf.Variable(v) for n, v in values.items()}
    average.apply(list(variables.values()))  # which makes it, beginning with the values
    o = v1.train.GradientDescentOptimizer(0.05)
    for at in steps:
        o.apply_gradients([(tf.constant(at[n]), variables[n]) for n in variables])
        average.apply(list(variables.values()))
    return [d for n, v in variables.items()
            for d in differs(n + "/ExponentialMovingAverage", ours.get(n + "/ExponentialMovingAverage"),
                             average.average(v), TOLERANCE)]


def check(name, seed):
    """A list of complaints; empty: equal."""
    import tensorflow.compat.v1 as v1
    from tensorflow.python.eager import context
    v1.enable_v2_tensorshape()  # the other tests of this process are TensorFlow 1 clients
    try:
        with context.eager_mode():
            if name in CASES:
                return check_optimizer(CASES[name], seed)
            if name == "partitioners":
                return check_partitioners()
            if name.startswith("servers, "):
                return check_served(CASES[name[9:]], seed)
            if name.startswith("schedule "):
                return check_schedule(*SCHEDULES[name[9:]])
            return check_clip(name[8:]) if name.startswith("clip by ") else check_average()
    finally:
        v1.disable_v2_tensorshape()
