# SPDX-License-Identifier: Apache-2.0
"""The programs of programs.py in JAX. Only inputs and results have shardings; XLA's partitioner chooses the others. Also
counts the bytes that it sends, from the text of the compiled program.
"""
import os
import re

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec  # noqa: E402

import programs  # noqa: E402

jax.config.update("jax_default_matmul_precision", "highest")
NAME = "JAX"


def refuses(program, layout):
    """What it cannot do; None: nothing."""
    return None


# ---- programs ----

def cross_entropies(logits, label):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), label[:, None], axis=1)[:, 0]


def attend(q, k, v):
    scores = jnp.einsum("blhd,bmhd->bhlm", q, k) * q.shape[-1] ** -0.5
    return jnp.einsum("bhlm,bmhd->blhd", jax.nn.softmax(scores), v)


def normalize(x, scale):
    x = x - jnp.mean(x, -1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale


def matmul(p, x, w):
    return dict(y=x @ w)


def mlp(p, x, label, w1, b1, w2, b2):
    logits = jax.nn.relu(x @ w1 + b1) @ w2 + b2
    return dict(loss=jnp.mean(cross_entropies(logits, label)))


def conv(p, x, w):
    y = jax.lax.conv_general_dilated(x, w, (p.stride, p.stride), p.padding,
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return dict(y=y, loss=jnp.sum(y * y) * 0.01)


def depthwise(p, x, w):
    y = jax.lax.conv_general_dilated(x, jnp.swapaxes(w, 2, 3), (1, 1), "SAME", feature_group_count=x.shape[3],
                                     dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return dict(y=y, loss=jnp.sum(y * y) * 0.01)


def pool(p, x):
    def windows(x, first, op):
        return jax.lax.reduce_window(x, first, op, (1, 3, 3, 1), (1, p.stride, p.stride, 1), "SAME")
    if p.op == "MaxPool":
        y = windows(x, -jnp.inf, jax.lax.max)
    else:
        y = windows(x, 0.0, jax.lax.add) / windows(jnp.ones((1, *x.shape[1:3], 1)), 0.0, jax.lax.add)
    return dict(y=y, loss=jnp.sum(y * y) * 0.01)


def scan(p, x):
    y = jnp.cumsum(x, axis=1)
    return dict(y=y, loss=jnp.sum(y * y) * 0.001)


def top_k(p, x):
    return dict(y=jax.lax.top_k(x, p.sizes["chosen"])[0])


def softmax(p, x):
    return dict(y=jax.nn.softmax(x))


def cross_entropy(p, x, label, w):
    return dict(loss=jnp.mean(cross_entropies(x @ w, label)))


def embedding(p, ids, w):
    y = jnp.take(w, ids, axis=0)
    return dict(y=y, loss=jnp.sum(y * y) * 0.1)


def attention(p, q, k, v):
    y = attend(q, k, v)
    return dict(y=y, loss=jnp.sum(y * y) * 0.1)


def transformer_block(p, x, target, n1, n2, wq, wk, wv, wo, wi, w2):
    y = normalize(x, n1)
    q, k, v = (jnp.einsum("blw,whd->blhd", y, w) for w in (wq, wk, wv))
    x = x + jnp.einsum("blhd,hdw->blw", attend(q, k, v), wo)
    x = x + jax.nn.relu(normalize(x, n2) @ wi) @ w2
    return dict(loss=jnp.mean((x - target) ** 2))


def experts(p, x, to, w1, w2):
    there = p.constrain(jnp.einsum("gtec,gtw->gecw", to, x), p.inside)
    h = jax.nn.relu(jnp.einsum("gecw,ewf->gecf", there, w1))
    back = p.constrain(jnp.einsum("gecf,efw->gecw", h, w2), "group,experts_all,capacity,width")
    y = jnp.einsum("gtec,gecw->gtw", to, back)
    return dict(y=y, loss=jnp.sum(y * y) * 0.1)


BODIES = dict(matmul=matmul, mlp=mlp, conv=conv, conv_strided=conv, conv_valid=conv, depthwise=depthwise,
              max_pool=pool, average_pool=pool, average_pool_strided=pool, scan=scan, top_k=top_k, softmax=softmax,
              cross_entropy=cross_entropy, embedding=embedding, attention=attention,
              transformer_block=transformer_block, large_block=transformer_block, experts=experts)


# ---- running them ----

class Run:
    """The same as ours.Run."""

    def __init__(self, program, mesh, layout, train=False):
        p = self.program = program
        axes = [a.split(":") for a in mesh.split(";")]
        sizes = [int(n) for _, n in axes]
        devices = np.array(jax.devices()[:int(np.prod(sizes))]).reshape(sizes)
        self.mesh, self.layout = Mesh(devices, [a for a, _ in axes]), layout
        p.constrain = lambda x, dims: jax.lax.with_sharding_constraint(x, self.sharding(dims))
        self.args = {n: jax.device_put(v, self.sharding(p.inputs[n])) for n, v in p.values().items()}
        self.n = devices.size
        self.compiled = (self.training() if train else self.once()).compile()

    def sharding(self, dims):
        cuts = programs.specification(dims, self.layout)
        return NamedSharding(self.mesh, PartitionSpec(*(tuple(c) or None for c in cuts)))

    def all_results(self, args):
        """Results and gradients, from one pass."""
        p, body = self.program, BODIES[type(self.program).__name__]
        if not p.gradients:
            return body(p, **args)
        rest = {n: v for n, v in args.items() if n not in p.gradients}

        def loss(weights):
            out = body(p, **weights, **rest)
            return out[p.loss], out
        d, out = jax.grad(loss, has_aux=True)({n: args[n] for n in p.gradients})
        return {**out, **{"d" + n: v for n, v in d.items()}}

    def once(self):
        where = {n: self.sharding(d) for n, d in self.program.results().items()}
        return jax.jit(self.all_results, out_shardings=where).lower(self.args)

    def training(self):
        p = self.program
        where = {n: self.sharding(p.inputs[n]) for n in p.inputs}

        def update(args):
            out = self.all_results(args)
            return {n: v - p.rate * out["d" + n] if n in p.gradients else v for n, v in args.items()}
        return jax.jit(update, out_shardings=where, donate_argnums=0).lower(self.args)

    def step(self):
        self.out = self.compiled(self.args)

    def train_step(self):
        self.args = self.compiled(self.args)

    def wait(self):
        jax.block_until_ready(self.args)

    def results(self):
        return {n: np.asarray(v) for n, v in self.out.items()}

    def values(self, names):
        return [np.asarray(self.args[n]) for n in names]

    def bytes(self):
        return moved(self.compiled.as_text(), self.n)


# ---- what moves ----

SIZES = dict(pred=1, s8=1, u8=1, s16=2, u16=2, f16=2, bf16=2, s32=4, u32=4, f32=4, s64=8, u64=8,
             f64=8)
OPS = "all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute|collective-broadcast"
LINE = re.compile(r"= (.*?) (%s)(?:-start)?\((.*)" % OPS)


def shape_bytes(text):
    return sum(SIZES[t] * int(np.prod([int(d) for d in dims.split(",") if d] or [1]))
               for t, dims in re.findall(r"\b([a-z]+\d*)\[([\d,]*)\]", text))


def group_size(text, n):
    listed = re.search(r"replica_groups=\{\{([\d,]*)\}", text)
    if listed:
        return len(listed.group(1).split(","))
    counted = re.search(r"replica_groups=\[\d+,(\d+)\]", text)
    return int(counted.group(1)) if counted else n


def moved(text, n):
    """Bytes that all devices receive, and each of them at most, when each collective takes what the
    best known algorithm (a ring, mostly) needs: of a group of k devices and b bytes of the whole
    result, an all-gather (k-1)/k b; a reduce-scatter (k-1)/k of the operand; an all-reduce both, an
    all-to-all (k-1)/k b; a permutation what is sent to others."""
    each = np.zeros(n)
    for line in text.splitlines():
        m = LINE.search(line)
        if not m:
            continue
        shape, op, rest = m.groups()
        size, k = shape_bytes(shape), group_size(rest, n)
        if op == "collective-permute":
            pairs = re.search(r"source_target_pairs=\{(.*?)\}\}", rest).group(1)
            for source, target in re.findall(r"(\d+),(\d+)", pairs):
                each[int(target)] += size if source != target else 0
        elif op == "all-reduce":
            each += 2 * size * (k - 1) / k
        elif op == "reduce-scatter":  # the result is a k-th of the operand
            each += size * (k - 1)
        else:
            each += size * (k - 1) / k
    return int(each.sum()), int(each.max())
