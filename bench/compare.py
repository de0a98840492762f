# SPDX-License-Identifier: Apache-2.0
"""Meshflow against TensorFlow on this machine, in one run: the same GraphDef, the same inputs.

Rounds of both sides alternate; the median counts. TensorFlow runs with its defaults (optimizer on, as many threads
as cores), except for the dispatch row, where elision is off on both sides.

Usage: build/venv/bin/python bench/compare.py [SUBJECT...]   (start size dispatch gemm conv chain
       net checkpoint)
"""
import ctypes
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(ROOT, "tests", "tf"))
import numpy as np  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402
from tensorflow.python.util import deprecation  # noqa: E402

import meshflow_lib as mf  # noqa: E402

deprecation._PRINT_DEPRECATION_WARNINGS = False
tf.disable_eager_execution()
ROUNDS = 7
ratios = {}


def row(subject, size, ours, peer, unit, note=""):
    ratio = peer / ours if ours else float("nan")
    ratios.setdefault(subject, []).append(ratio)
    print("%-10s %-28s %12.4f %12.4f %-6s %8.2f  %s" % (subject, size, ours, peer, unit, ratio, note),
          flush=True)


class Ours:
    """A run whose feeds and result handles are made once: only mf_session_run is timed."""

    def __init__(self, graph, fetch, feeds, disable="", folder=None):
        self.session = mf.Session(graph.as_graph_def().SerializeToString(), disable=disable,
                                  allow_dirs=[folder] if folder else [])
        self.feeds = [mf.to_tensor(v) for v in feeds.values()]
        self.names = mf._names([k.name for k in feeds])
        self.tensors = (mf.P * max(1, len(self.feeds)))(*self.feeds)
        self.fetch = mf._names([fetch.name])
        self.result = (mf.P * 1)()

    def __call__(self):
        mf.check(mf.lib.mf_session_run(self.session.session, None, self.names, self.tensors,
                                       len(self.feeds), self.fetch, 1, None, 0, self.result))

    def value(self):
        return mf.from_tensor(self.result[0])


class Theirs:
    """The same through a TensorFlow callable, with feeds as its own tensors."""

    def __init__(self, graph, fetch, feeds, config=None):
        self.session = tf.Session(graph=graph, config=config)
        self.run = self.session.make_callable(fetch, list(feeds))
        self.args = list(feeds.values())

    def __call__(self):
        self.out = self.run(*self.args)

    def value(self):
        return self.out


def time_once(run, target=0.15):
    run()
    n, spent = 1, 0.0
    while True:
        start = time.perf_counter()
        for _ in range(n):
            run()
        spent = time.perf_counter() - start
        if spent > target or n > 1 << 16:
            return spent / n
        n = max(n + 1, int(n * target / max(spent, 1e-6)))


def compare(subject, size, graph, fetch, feeds, unit=1e3, name="ms", tolerance=1e-3, disable="",
            config=None, flops=None, folder=None):
    ours, peer = Ours(graph, fetch, feeds, disable, folder), Theirs(graph, fetch, feeds, config)
    ours(), peer()
    a, b = np.asarray(ours.value(), np.float64), np.asarray(peer.value(), np.float64)
    bad = np.max(np.abs(a - b)) / (1 + np.max(np.abs(b))) if a.size else 0
    if bad > tolerance:
        print("%-10s %-28s answers differ by %g" % (subject, size, bad))
    mine, theirs = [], []
    for _ in range(ROUNDS):
        mine.append(time_once(ours))
        theirs.append(time_once(peer))
    m, t = statistics.median(mine), statistics.median(theirs)
    note = "%.0f GFLOP/s" % (flops / m / 1e9) if flops else ""
    spread = (max(mine) - min(mine)) / m * 100
    row(subject, size, m * unit, t * unit, name, ("%s spread %.0f%%" % (note, spread)).strip())


def dispatch():
    g = tf.Graph()
    with g.as_default():
        x, c = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
        y = x
        for _ in range(10000):
            y = tf.add(y, c)
        y = tf.identity(y)
    config = tf.ConfigProto()
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    compare("dispatch", "10,000 scalar adds", g, y, {x: np.float32(0), c: np.float32(1)},
            disable="fold,simplify,cse,fuse", config=config)


def gemm():
    for m, k, n in ((32, 32, 32), (64, 64, 64), (128, 128, 128), (256, 256, 256), (512, 512, 512),
                    (1024, 1024, 1024), (2048, 2048, 2048), (128, 784, 128), (32, 3136, 128),
                    (128, 3136, 1024)):
        g = tf.Graph()
        with g.as_default():
            a, b = tf.placeholder(tf.float32, [m, k]), tf.placeholder(tf.float32, [k, n])
            y = tf.matmul(a, b)
        rng = np.random.RandomState(1)
        compare("gemm", "%dx%dx%d" % (m, k, n), g, y,
                {a: rng.randn(m, k).astype("f"), b: rng.randn(k, n).astype("f")},
                flops=2.0 * m * k * n)


def conv():
    for h, c, o, k in ((28, 1, 32, 3), (28, 1, 32, 5), (14, 32, 64, 3), (32, 16, 16, 3),
                       (56, 64, 64, 3)):
        for batch in (8, 32):
            for what in ("forward", "input", "filter"):
                g = tf.Graph()
                rng = np.random.RandomState(1)
                with g.as_default():
                    x = tf.placeholder(tf.float32, [batch, h, h, c])
                    w = tf.placeholder(tf.float32, [k, k, c, o])
                    d = tf.placeholder(tf.float32, [batch, h, h, o])
                    xv = rng.randn(batch, h, h, c).astype("f")
                    wv = rng.randn(k, k, c, o).astype("f")
                    dv = rng.randn(batch, h, h, o).astype("f")
                    if what == "forward":
                        y = tf.nn.conv2d(x, w, strides=1, padding="SAME")
                        feeds = {x: xv, w: wv}
                    elif what == "input":
                        y = tf.nn.conv2d_backprop_input([batch, h, h, c], w, d, [1, 1, 1, 1],
                                                        "SAME")
                        feeds = {w: wv, d: dv}
                    else:
                        y = tf.nn.conv2d_backprop_filter(x, [k, k, c, o], d, [1, 1, 1, 1], "SAME")
                        feeds = {x: xv, d: dv}
                compare("conv", "%dx%dx%d->%d %dx%d B=%d %s" % (h, h, c, o, k, k, batch, what), g,
                        y, feeds, flops=2.0 * batch * h * h * k * k * c * o)


def chain():
    for rows in (64, 1024, 4096):
        g = tf.Graph()
        with g.as_default():
            x = tf.placeholder(tf.float32, [rows, 1024])
            b = tf.placeholder(tf.float32, [1024])
            y = x
            for _ in range(3):
                y = tf.nn.relu(y * 1.5 + b)
                y = tf.square(y) - x
                y = tf.maximum(y, -2.0) * 0.5
        rng = np.random.RandomState(1)
        compare("chain", "18 ops on %dx1024" % rows, g, y,
                {x: rng.randn(rows, 1024).astype("f") * 0.5, b: rng.randn(1024).astype("f") * 0.5})


def batch_norm(x, channels):
    scale, offset = tf.ones([channels]), tf.zeros([channels])
    return tf.raw_ops.FusedBatchNormV3(x=x, scale=scale, offset=offset, mean=[], variance=[])[0]


def residual_net(weight):
    """Two residual blocks of a ResNet's first stage."""
    x = y = tf.placeholder(tf.float32, [8, 56, 56, 64])
    for _ in range(2):
        z = tf.nn.relu(batch_norm(tf.nn.conv2d(y, weight(3, 3, 64, 64), 1, "SAME"), 64))
        y = tf.nn.relu(y + batch_norm(tf.nn.conv2d(z, weight(3, 3, 64, 64), 1, "SAME"), 64))
    return x, tf.reduce_mean(tf.square(y))


def fashion_cnn(weight):
    """Conv 32, pool, conv 64, pool, dense 128, dense 10."""
    x = y = tf.placeholder(tf.float32, [128, 28, 28, 1])
    for c, o in ((1, 32), (32, 64)):
        y = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(y, weight(3, 3, c, o), 1, "SAME"), weight(o)))
        y = tf.nn.max_pool2d(y, 2, 2, "VALID")
    y = tf.nn.relu(tf.nn.bias_add(tf.reshape(y, [128, 3136]) @ weight(3136, 128), weight(128)))
    y = tf.nn.bias_add(y @ weight(128, 10), weight(10))
    labels = tf.constant(np.arange(128) % 10)
    return x, tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=y))


def net():
    """Forward and backward passes of whole networks: shows the effect of graph passes."""
    for name, build in (("residual 56x56x64 B=8", residual_net), ("fashion-cnn B=128", fashion_cnn)):
        g = tf.Graph()
        rng = np.random.RandomState(1)
        feeds = {}

        def weight(*dims):
            w = tf.placeholder(tf.float32, dims)
            feeds[w] = (rng.randn(*dims) * (2.0 / np.prod(dims[:-1])) ** 0.5).astype("f")
            return w

        with g.as_default():
            x, loss = build(weight)
            grads = tf.gradients(loss, list(feeds))
            sums = tf.add_n([loss] + [tf.reduce_sum(tf.square(d)) for d in grads])
            feeds[x] = rng.randn(*x.shape.as_list()).astype("f")
        compare("net", name, g, sums, feeds)


FIRST_STEP = r"""
import os, sys, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
g = tf.Graph()
with g.as_default():
    tf.import_graph_def(open(sys.argv[1], "rb").read() and
                        tf.GraphDef.FromString(open(sys.argv[1], "rb").read()), name="")
with tf.Session(graph=g) as s:
    s.run("init")
    s.run(["loss:0", "train"], {"x:0": np.ones((32, 64), "f")})
"""


def training_graph():
    g = tf.Graph()
    with g.as_default():
        x = tf.placeholder(tf.float32, [None, 64], name="x")
        w = tf.Variable(tf.ones([64, 32]) * 0.01, use_resource=True)
        v = tf.Variable(tf.ones([32, 10]) * 0.01, use_resource=True)
        y = tf.matmul(tf.nn.relu(tf.matmul(x, w)), v)
        loss = tf.reduce_mean(tf.square(y), name="loss")
        tf.train.GradientDescentOptimizer(0.1).minimize(loss, name="train")
        tf.group(tf.global_variables_initializer(), name="init")
    return g


# The peak resident set of a process is at least that of the process that started it, so a small one starts it
# (about 10 MB: the smallest value that can be measured).
SPAWN = r"""
import os, sys, time
null = os.open(os.devnull, os.O_RDWR)
begin = time.perf_counter()
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ,
                     file_actions=[(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)])
_, status, usage = os.wait4(pid, 0)
print(time.perf_counter() - begin, usage.ru_maxrss / 1024.0)
sys.exit(status != 0)
"""


def spawn(command):
    """Seconds and MB of resident memory of a process that must succeed."""
    out = subprocess.run([sys.executable, "-S", "-c", SPAWN, *command], check=True,
                         capture_output=True, text=True).stdout
    return [float(word) for word in out.split()]


def start():
    path = os.path.join(ROOT, "build", "bench_start.pb")
    feed = os.path.join(ROOT, "build", "bench_start.npy")
    with open(path, "wb") as f:
        f.write(training_graph().as_graph_def().SerializeToString())
    np.save(feed, np.ones((32, 64), "f"))
    program = os.path.join(ROOT, "build", "meshflow")
    command = [program, "graph", "run", path, "--target", "init", "--target", "train", "--feed",
               "x=" + feed, "--fetch", "loss:0"]
    mine = [spawn(command) for _ in range(5)]
    theirs = [spawn([sys.executable, "-c", FIRST_STEP, path]) for _ in range(2)]
    row("start", "exec to end of first step", statistics.median(t for t, _ in mine),
        statistics.median(t for t, _ in theirs), "s")
    row("memory", "largest resident set", max(m for _, m in mine), max(m for _, m in theirs), "MB")


def size():
    stripped = os.path.join(ROOT, "build", "bench_stripped.so")
    subprocess.run(["strip", "-o", stripped, os.path.join(ROOT, "build", "libmeshflow.so.0")],
                   check=True)
    total = 0
    import tensorflow
    base = os.path.dirname(tensorflow.__file__)
    for name in os.listdir(base):
        if ".so" in name:
            total += os.path.getsize(os.path.join(base, name))
    row("size", "own code, stripped", os.path.getsize(stripped) / 1e6, total / 1e6, "MB")
    os.remove(stripped)


class Files:
    """Two hundred MB of weights as a checkpoint, and the graphs that write and read it."""

    def __init__(self, folder, count=64, side=1024):
        rng = np.random.RandomState(1)
        self.values = [rng.randn(side, side).astype("f") for _ in range(count)]
        self.mb = count * side * side * 4 / 1e6
        self.plain, self.prefix = os.path.join(folder, "plain"), os.path.join(folder, "model")
        names, specs = ["w%d" % i for i in range(count)], [""] * count
        self.save, self.load = tf.Graph(), tf.Graph()
        with self.save.as_default():
            feeds = [tf.placeholder(tf.float32, [side, side]) for _ in names]
            written = tf.raw_ops.SaveV2(prefix=self.prefix, tensor_names=names, shape_and_slices=specs,
                                        tensors=feeds)
            with tf.control_dependencies([written]):
                self.saved = tf.identity(feeds[0][0, 0])
            self.feeds = dict(zip(feeds, self.values))
        with self.load.as_default():
            read = tf.raw_ops.RestoreV2(prefix=self.prefix, tensor_names=names, shape_and_slices=specs,
                                        dtypes=[tf.float32] * count)
            self.loaded = tf.add_n([t[0, 0] for t in read])

    def write_plain(self):
        """The disk's throughput: the same bytes in the same chunks, and fsync."""
        fd = os.open(self.plain, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for v in self.values:
            os.write(fd, v)
        os.fsync(fd)
        os.close(fd)


def checkpoint():
    """Meshflow ends with fsync; TensorFlow does not, so the disk is the peer. Reading: from the page cache, with checksums,
    by both."""
    with tempfile.TemporaryDirectory(dir=os.path.join(ROOT, "build")) as folder:
        f = Files(folder)
        ours = Ours(f.save, f.saved, f.feeds, folder=folder)
        mine, disk = [], []
        f.write_plain(), ours()
        for _ in range(ROUNDS):
            for runs, times in ((f.write_plain, disk), (ours, mine)):
                begin = time.perf_counter()
                runs()
                times.append(time.perf_counter() - begin)
        m, d = statistics.median(mine), statistics.median(disk)
        row("write", "%.0f MB, fsync and CRC" % f.mb, m, d, "s",
            "%.0f MB/s, the disk %.0f" % (f.mb / m, f.mb / d))
        compare("restore", "%.0f MB" % f.mb, f.load, f.loaded, {}, folder=folder)


SUBJECTS = {"start": start, "size": size, "dispatch": dispatch, "gemm": gemm, "conv": conv,
            "chain": chain, "net": net, "checkpoint": checkpoint}


def main():
    with open("/proc/loadavg") as f:
        load = f.read().split()[0]
    print("# TensorFlow %s, %d cores, load %s, %s" % (tf.__version__, os.cpu_count(), load,
                                                      time.strftime("%Y-%m-%d")))
    print("%-10s %-28s %12s %12s %-6s %8s" % ("subject", "size", "ours", "peer", "unit", "ratio"))
    for name in sys.argv[1:] or SUBJECTS:
        SUBJECTS[name]()
    for name, values in ratios.items():
        print("# %s: geometric mean of %d ratios %.2f, least %.2f" %
              (name, len(values), float(np.exp(np.mean(np.log(values)))), min(values)))
    ctypes.CDLL(None).fflush(None)


if __name__ == "__main__":
    main()
