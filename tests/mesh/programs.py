# SPDX-License-Identifier: Apache-2.0
"""The programs that Meshflow's mesh and its peers run under the same layouts. Each is defined by Meshflow's ops (`ours`);
jax_programs.py and mtf_programs.py define it under the same name.

A dimension has a name and, for the whole program, a size. Inputs, results and gradients are sharded as the layout says;
the sharding of other values is up to the implementation.
"""
import numpy as np

EIGHT, FOUR = "rows:2;cols:4", "rows:2;cols:2"


def specification(dims, layout):
    """Axes by dimension: what Mesh TensorFlow calls a tensor layout."""
    rules = [r.split(":") for r in layout.split(";") if r]
    return [[axis for name, axis in rules if name == d] for d in dims.split(",") if dims]


class Program:
    inputs, indices = {}, {}  # dimensions by name; of those that are indices, how many there are
    outputs = {}  # the same of results
    gradients, loss = [], "loss"  # by these inputs, of this result
    layouts, sizes = [], {}
    rate = 0.01  # of training, where speed is measured

    def shape(self, dims):
        return [self.sizes[d] for d in dims.split(",") if d]

    def results(self):
        return {**self.outputs, **{"d" + n: self.inputs[n] for n in self.gradients}}

    def values(self):
        """Inputs. Weights (w...) are scaled so that results are about 1."""
        out = {}
        for i, (name, dims) in enumerate(self.inputs.items()):
            rng, shape = np.random.RandomState(i + 1), self.shape(dims)
            if name in self.indices:
                out[name] = rng.randint(0, self.indices[name], shape).astype(np.int32)
            else:
                fan_in = np.prod(shape[:-1]) if name[0] == "w" and len(shape) > 1 else 1
                out[name] = (rng.randn(*shape) / np.sqrt(fan_in)).astype(np.float32)
        return out


class matmul(Program):
    sizes = dict(batch=32, inner=48, hidden=40)
    inputs = dict(x="batch,inner", w="inner,hidden")
    outputs = dict(y="batch,hidden")
    layouts = [(EIGHT, l) for l in (
        "batch:rows;hidden:cols", "batch:rows;inner:cols", "inner:rows;hidden:cols",
        "inner:rows;inner:cols", "batch:rows;batch:cols", "hidden:rows;hidden:cols")]

    def ours(self, g, x, w):
        return dict(y=g("MatMul", x, w))


class mlp(Program):
    sizes = dict(batch=32, pixels=64, hidden=48, classes=16)
    inputs = dict(x="batch,pixels", label="batch", w1="pixels,hidden", b1="hidden",
                  w2="hidden,classes", b2="classes")
    indices = dict(label=16)
    outputs = dict(loss="")
    gradients = ["w1", "b1", "w2", "b2"]
    layouts = [(EIGHT, l) for l in (
        "batch:rows", "batch:rows;batch:cols", "hidden:cols", "hidden:rows;hidden:cols",
        "batch:rows;hidden:cols", "batch:cols;hidden:rows", "pixels:rows;hidden:cols")]

    def ours(self, g, x, label, w1, b1, w2, b2):
        h = g("Relu", g("BiasAdd", g("MatMul", x, w1), b1))
        logits = g("BiasAdd", g("MatMul", h, w2), b2)
        losses = g("SparseSoftmaxCrossEntropyWithLogits", logits, label)
        return dict(loss=g.mean(losses, [0]))


class conv(Program):
    """An image cut along height and width: neighbours need each other's edges."""
    sizes = dict(batch=8, height=16, width=16, channels=8, filters=16, kh=3, kw=3)
    inputs = dict(x="batch,height,width,channels", w="kh,kw,channels,filters")
    outputs = dict(y="batch,height,width,filters", loss="")
    gradients = ["x", "w"]
    padding, stride = "SAME", 1
    layouts = [(EIGHT, l) for l in (
        "height:rows;width:cols", "height:cols", "batch:rows;height:cols", "batch:rows;filters:cols",
        "batch:rows;batch:cols", "channels:cols")]

    def ours(self, g, x, w):
        y = g("Conv2D", x, w, "strides=[1,%d,%d,1] padding='%s'" %
              (self.stride, self.stride, self.padding))
        return dict(y=y, loss=g("Mul", g.sum(g("Mul", y, y), [0, 1, 2, 3]), 0.01))


class conv_strided(conv):
    sizes = dict(conv.sizes, out_height=8, out_width=8)
    outputs = dict(y="batch,out_height,out_width,filters", loss="")
    stride = 2
    layouts = [(FOUR, "height:rows;out_height:rows;width:cols;out_width:cols"),
               (FOUR, "height:rows;out_height:rows"), (FOUR, "batch:rows;width:cols;out_width:cols")]


class conv_valid(conv):
    sizes = dict(conv.sizes, height=18, width=18, out_height=16, out_width=16)
    outputs = dict(y="batch,out_height,out_width,filters", loss="")
    padding = "VALID"
    layouts = conv_strided.layouts


class depthwise(conv):
    """Every channel by itself."""
    inputs = dict(x="batch,height,width,channels", w="kh,kw,channels,one")
    sizes = dict(conv.sizes, one=1)
    outputs = dict(y="batch,height,width,channels", loss="")
    layouts = [(EIGHT, l) for l in (
        "height:rows;width:cols", "batch:rows;height:cols", "batch:rows;channels:cols",
        "batch:rows;batch:cols")]

    def ours(self, g, x, w):
        y = g("DepthwiseConv2dNative", x, w, "strides=[1,1,1,1] padding='SAME'")
        return dict(y=y, loss=g("Mul", g.sum(g("Mul", y, y), [0, 1, 2, 3]), 0.01))


class max_pool(Program):
    """Windows that overlap."""
    sizes = dict(batch=8, height=16, width=16, channels=8)
    inputs = dict(x="batch,height,width,channels")
    outputs = dict(y="batch,height,width,channels", loss="")
    gradients = ["x"]
    op, stride = "MaxPool", 1
    layouts = [(EIGHT, l) for l in (
        "height:rows;width:cols", "batch:rows;height:cols", "batch:rows;channels:cols")]

    def ours(self, g, x):
        y = g(self.op, x, "ksize=[1,3,3,1] strides=[1,%d,%d,1] padding='SAME'" %
              (self.stride, self.stride))
        return dict(y=y, loss=g("Mul", g.sum(g("Mul", y, y), [0, 1, 2, 3]), 0.01))


class average_pool(max_pool):
    op = "AvgPool"


class average_pool_strided(average_pool):
    sizes = dict(max_pool.sizes, out_height=8, out_width=8)
    outputs = dict(y="batch,out_height,out_width,channels", loss="")
    stride = 2
    layouts = conv_strided.layouts


class scan(Program):
    sizes = dict(batch=8, length=16, width=32)
    inputs = dict(x="batch,length,width")
    outputs = dict(y="batch,length,width", loss="")
    gradients = ["x"]
    layouts = [(EIGHT, l) for l in ("batch:rows;width:cols", "width:rows;width:cols")]

    def ours(self, g, x):
        y = g("Cumsum", x, 1)
        return dict(y=y, loss=g("Mul", g.sum(g("Mul", y, y), [0, 1, 2]), 0.001))


class top_k(Program):
    sizes = dict(batch=16, classes=256, chosen=4)
    inputs = dict(x="batch,classes")
    outputs = dict(y="batch,chosen")
    layouts = [(EIGHT, l) for l in (
        "classes:cols", "batch:rows;classes:cols", "classes:rows;classes:cols", "batch:rows")]

    def ours(self, g, x):
        return dict(y=g("TopKV2", x, self.sizes["chosen"]))


class softmax(Program):
    sizes = dict(batch=32, classes=64)
    inputs = dict(x="batch,classes")
    outputs = dict(y="batch,classes")
    layouts = [(EIGHT, l) for l in (
        "classes:cols", "batch:rows;classes:cols", "classes:rows;classes:cols", "batch:cols")]

    def ours(self, g, x):
        return dict(y=g("Softmax", x))


class cross_entropy(Program):
    sizes = dict(batch=32, inner=24, classes=64)
    inputs = dict(x="batch,inner", label="batch", w="inner,classes")
    indices = dict(label=64)
    outputs = dict(loss="")
    gradients = ["x", "w"]
    layouts = [(EIGHT, l) for l in (
        "classes:cols", "batch:rows;classes:cols", "classes:rows;classes:cols",
        "inner:rows;classes:cols")]

    def ours(self, g, x, label, w):
        losses = g("SparseSoftmaxCrossEntropyWithLogits", g("MatMul", x, w), label)
        return dict(loss=g.mean(losses, [0]))


class embedding(Program):
    sizes = dict(batch=16, length=8, vocabulary=64, width=32)
    inputs = dict(ids="batch,length", w="vocabulary,width")
    indices = dict(ids=64)
    outputs = dict(y="batch,length,width", loss="")
    gradients = ["w"]
    layouts = [(EIGHT, l) for l in (
        "vocabulary:cols", "batch:rows;vocabulary:cols", "vocabulary:rows;vocabulary:cols",
        "batch:rows;width:cols", "batch:rows")]

    def ours(self, g, ids, w):
        y = g("GatherV2", w, ids, 0)
        return dict(y=y, loss=g("Mul", g.sum(g("Mul", y, y), [0, 1, 2]), 0.1))


class attention(Program):
    sizes = dict(batch=8, length=16, memory=16, heads=8, depth=8)
    inputs = dict(q="batch,length,heads,depth", k="batch,memory,heads,depth",
                  v="batch,memory,heads,depth")
    outputs = dict(y="batch,length,heads,depth", loss="")
    gradients = ["q", "k", "v"]
    layouts = [(EIGHT, l) for l in (
        "batch:rows;heads:cols", "heads:rows;heads:cols", "batch:rows;length:cols",
        "batch:rows;memory:cols")]

    def ours(self, g, q, k, v):
        y = attend(g, q, k, v, self.sizes["depth"])
        return dict(y=y, loss=g("Mul", g.sum(g("Mul", y, y), [0, 1, 2, 3]), 0.1))


def attend(g, q, k, v, depth):
    scores = g("Mul", g.einsum("blhd,bmhd->bhlm", q, k), depth ** -0.5)
    return g.einsum("bhlm,bmhd->blhd", g("Softmax", scores), v)


def normalize(g, x, scale):
    x = g("Sub", x, g.mean(x, [2], True))
    variance = g.mean(g("Mul", x, x), [2], True)
    return g("Mul", g("Mul", x, g("Rsqrt", g("Add", variance, 1e-6))), scale)


class transformer_block(Program):
    """Attention and two dense layers, each behind a norm and beside a residual."""
    sizes = dict(batch=8, length=16, width=32, heads=4, depth=8, ff=64)
    inputs = dict(x="batch,length,width", target="batch,length,width", n1="width", n2="width",
                  wq="width,heads,depth", wk="width,heads,depth", wv="width,heads,depth",
                  wo="heads,depth,width", wi="width,ff", w2="ff,width")
    outputs = dict(loss="")
    gradients = ["n1", "n2", "wq", "wk", "wv", "wo", "wi", "w2"]
    layouts = [(FOUR, l) for l in (
        "batch:rows;heads:cols;ff:cols", "batch:rows;batch:cols", "heads:cols;ff:cols",
        "batch:rows;heads:cols", "heads:rows;heads:cols;ff:rows;ff:cols")]

    def ours(self, g, x, target, n1, n2, wq, wk, wv, wo, wi, w2):
        y = normalize(g, x, n1)
        q, k, v = (g.einsum("blw,whd->blhd", y, w) for w in (wq, wk, wv))
        x = g("Add", x, g.einsum("blhd,hdw->blw", attend(g, q, k, v, self.sizes["depth"]), wo))
        y = g("Relu", g.einsum("blw,wf->blf", normalize(g, x, n2), wi))
        x = g("Add", x, g.einsum("blf,fw->blw", y, w2))
        error = g("Sub", x, target)
        return dict(loss=g.mean(g("Mul", error, error), [0, 1, 2]))


class large_block(transformer_block):
    """The same, as large as one whose speed is worth measuring."""
    sizes = dict(batch=8, length=128, width=256, heads=8, depth=32, ff=1024)
    layouts = transformer_block.layouts[:3]


class experts(Program):
    """A mixture of experts: tokens are sent to their experts on other devices, and back. The routing is an
    input."""
    sizes = dict(group=8, tokens=16, whole_group=8, experts=8, capacity=4, width=16, ff=32)
    inputs = dict(x="group,tokens,width", to="group,tokens,experts_all,capacity",
                  w1="experts,width,ff", w2="experts,ff,width")
    sizes["experts_all"] = sizes["experts"]
    outputs = dict(y="group,tokens,width", loss="")
    gradients = ["x", "w1", "w2"]
    layouts = [(FOUR, "group:rows;experts:rows"), (FOUR, "group:rows;experts:rows;ff:cols"),
               ("all:8", "group:all;experts:all")]

    def values(self):
        """Each token is routed to one expert with free capacity."""
        out, s = super().values(), self.sizes
        rng = np.random.RandomState(7)
        out["to"] = np.zeros(self.shape(self.inputs["to"]), np.float32)
        for g in range(s["group"]):
            used = [0] * s["experts"]
            for t in range(s["tokens"]):
                e = rng.randint(s["experts"])
                if used[e] < s["capacity"]:
                    out["to"][g, t, e, used[e]] = rng.rand()
                    used[e] += 1
        return out

    inside = "whole_group,experts,capacity,width"

    def ours(self, g, x, to, w1, w2):
        there = g.dims(g.einsum("gtec,gtw->gecw", to, x), self.inside)
        h = g("Relu", g.einsum("gecw,ewf->gecf", there, w1))
        back = g.dims(g.einsum("gecf,efw->gecw", h, w2), "group,experts_all,capacity,width")
        y = g.einsum("gtec,gecw->gtw", to, back)
        return dict(y=y, loss=g("Mul", g.sum(g("Mul", y, y), [0, 1, 2]), 0.1))


ALL = [matmul, mlp, conv, conv_strided, conv_valid, depthwise, max_pool, average_pool,
       average_pool_strided, scan, top_k, softmax, cross_entropy, embedding, attention,
       transformer_block, experts]
