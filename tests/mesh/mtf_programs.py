# SPDX-License-Identifier: Apache-2.0
"""The programs of programs.py in Mesh TensorFlow, by its placement mesh: slices are tensors of one
TensorFlow graph.
"""
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import numpy as np  # noqa: E402
import tensorflow.compat.v1 as tf  # noqa: E402

tf.logging.set_verbosity(tf.logging.ERROR)
tf.disable_v2_behavior()
import mesh_tensorflow as mtf  # noqa: E402
from mesh_tensorflow.placement_mesh_impl import PlacementMeshImpl  # noqa: E402

NAME = "Mesh TensorFlow"


def shape(p, dims):
    return mtf.Shape([mtf.Dimension(d, p.sizes[d]) for d in dims.split(",") if d])


def einsum(p, dims, *xs):
    return mtf.einsum(list(xs), output_shape=shape(p, dims))


# ---- programs ----

def mean_cross_entropy(p, logits, label):
    classes = mtf.Dimension("classes", p.sizes["classes"])
    return mtf.reduce_mean(mtf.layers.softmax_cross_entropy_with_logits(logits, label, classes))


def attend(p, q, k, v):
    scores = einsum(p, "batch,heads,length,memory", q, k) * p.sizes["depth"] ** -0.5
    weights = mtf.softmax(scores, mtf.Dimension("memory", p.sizes["memory"]))
    return einsum(p, "batch,length,heads,depth", weights, v)


def normalize(x, scale):
    width = x.shape.dims[-1]
    x -= mtf.reduce_mean(x, reduced_dim=width)
    return x * mtf.rsqrt(mtf.reduce_mean(mtf.square(x), reduced_dim=width) + 1e-6) * scale


def matmul(p, x, w):
    return dict(y=einsum(p, "batch,hidden", x, w))


def mlp(p, x, label, w1, b1, w2, b2):
    h = mtf.relu(einsum(p, "batch,hidden", x, w1) + b1)
    return dict(loss=mean_cross_entropy(p, einsum(p, "batch,classes", h, w2) + b2, label))


def conv(p, x, w):
    """Where height or width is cut, it is blocks of them that are; others send their edges."""
    dims = x.shape.dims
    for blocks, size in ("height_blocks", dims[-3]), ("width_blocks", dims[-2]):
        block = [d for d in dims if d.name == blocks]
        x = (mtf.halo_exchange(x, block[0], size, 1) if block else mtf.pad(x, [1, 1], size.name))
    y = mtf.Conv2dOperation(x, w, [1, 1, 1, 1], "VALID").outputs[0]
    return dict(y=y, loss=mtf.reduce_sum(mtf.square(y)) * 0.01)


def softmax(p, x):
    return dict(y=mtf.softmax(x, mtf.Dimension("classes", p.sizes["classes"])))


def cross_entropy(p, x, label, w):
    return dict(loss=mean_cross_entropy(p, einsum(p, "batch,classes", x, w), label))


def embedding(p, ids, w):
    y = mtf.gather(w, ids, mtf.Dimension("vocabulary", p.sizes["vocabulary"]))
    return dict(y=y, loss=mtf.reduce_sum(mtf.square(y)) * 0.1)


def attention(p, q, k, v):
    y = attend(p, q, k, v)
    return dict(y=y, loss=mtf.reduce_sum(mtf.square(y)) * 0.1)


def transformer_block(p, x, target, n1, n2, wq, wk, wv, wo, wi, w2):
    p.sizes = dict(p.sizes, memory=p.sizes["length"])
    y = normalize(x, n1)
    m = mtf.rename_dimension(y, "length", "memory")
    q = einsum(p, "batch,length,heads,depth", y, wq)
    k, v = (einsum(p, "batch,memory,heads,depth", m, w) for w in (wk, wv))
    x += einsum(p, "batch,length,width", attend(p, q, k, v), wo)
    y = mtf.relu(einsum(p, "batch,length,ff", normalize(x, n2), wi))
    x += einsum(p, "batch,length,width", y, w2)
    return dict(loss=mtf.reduce_mean(mtf.square(x - target)))


def experts(p, x, to, w1, w2):
    there = einsum(p, "group,experts_all,capacity,width", to, x)
    there = mtf.reshape(there, shape(p, p.inside))
    h = mtf.relu(einsum(p, "whole_group,experts,capacity,ff", there, w1))
    back = einsum(p, p.inside, h, w2)
    back = mtf.reshape(back, shape(p, "group,experts_all,capacity,width"))
    y = einsum(p, "group,tokens,width", to, back)
    return dict(y=y, loss=mtf.reduce_sum(mtf.square(y)) * 0.1)


BODIES = dict(matmul=matmul, mlp=mlp, conv=conv, softmax=softmax, cross_entropy=cross_entropy,
              embedding=embedding, attention=attention, transformer_block=transformer_block,
              experts=experts)


def refuses(program, layout):
    """What it cannot do; None: nothing."""
    dims = [r.split(":")[0] for r in layout.split(";") if r]
    if type(program).__name__ not in BODIES:
        return "not written for it: halos are only of convolutions, SAME and in steps of one"
    if len(set(dims)) < len(dims):
        return "a dimension along several axes"
    return None


# ---- running them ----

class Blocks:
    """Images as blocks: [batch,height,width,channels] to [batch,blocks...,height,width,channels]."""

    def __init__(self, sizes, axes, layout):
        rules = dict(r.split(":") for r in layout.split(";") if r)
        self.n = [axes[rules[d]] if d in rules else 1 for d in ("height", "width")]
        self.layout = ";".join("%s:%s" % (d + "_blocks" if d in ("height", "width") else d, a)
                               for d, a in rules.items())
        self.sizes = dict(sizes, height=sizes["height"] // self.n[0],
                          width=sizes["width"] // self.n[1], height_blocks=self.n[0],
                          width_blocks=self.n[1])

    def dims(self, dims):
        if "height" not in dims:
            return dims
        return dims.replace("height,width", ",".join(
            [d for d, n in zip(("height_blocks", "width_blocks"), self.n) if n > 1] +
            ["height", "width"]))

    def cut(self, x):
        b, h, w, c = x.shape
        x = x.reshape(b, self.n[0], h // self.n[0], self.n[1], w // self.n[1], c)
        x = x.transpose(0, 1, 3, 2, 4, 5)
        return x.reshape([n for i, n in enumerate(x.shape) if n > 1 or i not in (1, 2)])

    def join(self, y):
        b, h, w, c = y.shape[0], *y.shape[-3:]
        y = y.reshape(b, *self.n, h, w, c).transpose(0, 1, 3, 2, 4, 5)
        return y.reshape(b, self.n[0] * h, self.n[1] * w, c)


class Run:
    """The same as ours.Run, without counts."""

    def __init__(self, program, mesh, layout):
        self.program, self.blocks = program, None
        axes = dict((a, int(n)) for a, n in (x.split(":") for x in mesh.split(";")))
        if "height" in program.sizes:
            self.blocks = Blocks(program.sizes, axes, layout)
            layout, program.sizes = self.blocks.layout, self.blocks.sizes
        self.graph = tf.Graph()
        with self.graph.as_default():
            self.build(mesh, layout)

    def dims(self, dims):
        return self.blocks.dims(dims) if self.blocks else dims

    def build(self, mesh_text, layout):
        p = self.program
        graph = mtf.Graph()
        mesh = mtf.Mesh(graph, "mesh")
        self.feeds, inputs = {}, {}
        for name, value in type(p)().values().items():
            dims = self.dims(p.inputs[name])
            if dims != p.inputs[name]:
                value = self.blocks.cut(value)
            feed = tf.placeholder(value.dtype, value.shape)
            self.feeds[feed] = value
            inputs[name] = mtf.import_tf_tensor(mesh, feed, shape(p, dims))
        out = BODIES[type(p).__name__](p, **inputs)
        if p.gradients:
            ds = mtf.gradients([out[p.loss]], [inputs[n] for n in p.gradients])
            out.update(("d" + n, d) for n, d in zip(p.gradients, ds))
        out = {n: mtf.transpose(out[n], shape(p, self.dims(d))) for n, d in p.results().items()}
        impl = PlacementMeshImpl(mtf.convert_to_shape(mesh_text), mtf.convert_to_layout_rules(layout),
                                 [""] * int(np.prod([int(a.split(":")[1])
                                                     for a in mesh_text.split(";")])))
        lowering = mtf.Lowering(graph, {mesh: impl})
        self.fetches = {n: lowering.export_to_tf_tensor(t) for n, t in out.items()}

    def step(self):
        with tf.Session(graph=self.graph) as session:
            self.out = session.run(self.fetches, self.feeds)

    def results(self):
        return {n: self.blocks.join(v) if self.blocks and "height" in self.program.results()[n] else v
                for n, v in self.out.items()}
