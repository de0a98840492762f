/* SPDX-License-Identifier: Apache-2.0 */
/* batch_norm_grad.c - the second derivative of batch normalisation.
 *
 * With u = x - mean, r = 1 / sqrt(variance + epsilon), h = u r and P(a) = a - mean(a) - h mean(a
 * h), the node computes, per channel,
 *
 *   dx = scale r P(dy),   dscale = sum(dy h),   doffset = sum(dy)
 *
 * P is symmetric, dr / dx = -r^2 h / n and d mean(a h) / dx = r P(a) / n. So with G, S and O the
 * gradients of the three,
 *
 *   for dy:     scale r P(G) + S h + O
 *   for scale:  sum(G r P(dy))
 *   for x:      S r P(dy) - scale r^2 (h (cov(G, dy) - mean(G h) mean(dy h)) + P(G) mean(dy h)
 *                                      + P(dy) mean(G h))
 *
 * In inference, mean and variance are constants, P(a) = a, and x affects only dscale. As in
 * TensorFlow, the statistics in training are those of x, whatever the node's inputs. */
#include "ops/nn/batch_norm_grad.h"

#include "ops/control/grad_util.h"

#include <string.h>

typedef struct norm2 {
    mf_grad *g;
    mf_output axes; /* all but the channels */
    mf_output per_channel; /* the shape that broadcasts one value per channel */
    mf_output h, r;
} norm2;

#define MUL(a, b) MF_G2("Mul", a, b)
#define SUB(a, b) MF_G2("Sub", a, b)
#define ADD(a, b) MF_G2("AddV2", a, b)

static mf_output batch_norm_grad_mean(const norm2 *n, mf_output a)
{
    return mf_applyf(n->g->graph, "Mean", MF_IN(a, n->axes), "keep_dims=true");
}

/* The sum over everything but channels, as a vector. */
static mf_output batch_norm_grad_sum(const norm2 *n, mf_output a)
{
    return mf_apply(n->g->graph, "Sum", MF_IN(a, n->axes));
}

/* A vector of one value per channel, or zeros if empty, reshaped to broadcast. */
static mf_output channels(const norm2 *n, mf_output vector, mf_output like)
{
    mf_grad *g = n->g;

    return MF_G2("Reshape", vector.node ? vector : MF_G1("ZerosLike", like), n->per_channel);
}

static mf_output as_type(mf_grad *g, mf_output a, mf_dtype type)
{
    if (mf_grad_type(a) == type)
        return a;
    return mf_applyf(g->graph, "Cast", MF_IN(a), "DstT=%s", mf_dtype_name(type));
}

/* a - mean(a) - h mean(a h) */
static mf_output batch_norm_grad_project(const norm2 *n, mf_output a)
{
    mf_grad *g = n->g;

    return SUB(SUB(a, batch_norm_grad_mean(n, a)),
               MUL(n->h, batch_norm_grad_mean(n, MUL(a, n->h))));
}

static mf_output all_axes_but_channels(mf_grad *g)
{
    const char *format = mf_node_string(g->node, "data_format");
    const int rank = (int)strlen(format);
    int64_t axes[MF_MAX_RANK];
    int n = 0;

    for (int d = 0; d < rank; d++) {
        if (format[d] != 'C')
            axes[n++] = d;
    }
    return mf_ints(g->graph, axes, n);
}

static void batch_norm_grad_statistics(norm2 *n, mf_output x, bool training)
{
    mf_grad *g = n->g;
    const mf_output m = batch_norm_grad_mean(n, x);
    mf_output u, variance, epsilon;

    n->per_channel = MF_G1("Shape", m);
    u = SUB(x, training ? m : channels(n, g->x[3], g->x[3]));
    variance =
        training ? batch_norm_grad_mean(n, MF_G1("Square", u)) : channels(n, g->x[4], g->x[4]);
    epsilon = mf_grad_scalar(g, variance, (double)mf_node_float(g->node, "epsilon"));
    n->r = MF_G1("Rsqrt", ADD(variance, epsilon));
    n->h = MUL(u, n->r);
}

mf_status mf_batch_norm_grad_grad(mf_grad *g)
{
    const bool training = mf_node_bool(g->node, "is_training");
    const mf_output dy = as_type(g, g->x[0], MF_DTYPE_F32), x = as_type(g, g->x[1], MF_DTYPE_F32);
    const mf_output gx = g->dy[0].node ? as_type(g, g->dy[0], MF_DTYPE_F32) : MF_G1("ZerosLike", x);
    norm2 n = { .g = g, .axes = all_axes_but_channels(g) };
    mf_output scale, gs, go, p_gx, p_dy, for_dy, for_x, m_gx, m_dy, rest;

    batch_norm_grad_statistics(&n, x, training);
    scale = MUL(channels(&n, g->x[2], g->x[2]), n.r); /* always used together with r */
    gs = channels(&n, g->dy[1], g->x[2]);
    go = channels(&n, g->dy[2], g->x[2]);
    p_gx = training ? batch_norm_grad_project(&n, gx) : gx;
    p_dy = training ? batch_norm_grad_project(&n, dy) : dy;
    for_dy = ADD(ADD(MUL(scale, p_gx), MUL(gs, n.h)), go);
    for_x = MUL(MUL(gs, n.r), p_dy);
    if (training) {
        m_gx = batch_norm_grad_mean(&n, MUL(gx, n.h));
        m_dy = batch_norm_grad_mean(&n, MUL(dy, n.h));
        rest = SUB(SUB(batch_norm_grad_mean(&n, MUL(gx, dy)),
                       MUL(batch_norm_grad_mean(&n, gx), batch_norm_grad_mean(&n, dy))),
                   MUL(m_gx, m_dy));
        rest = ADD(MUL(n.h, rest), ADD(MUL(p_gx, m_dy), MUL(p_dy, m_gx)));
        for_x = SUB(for_x, MUL(MUL(scale, n.r), rest));
    }
    g->dx[0] = as_type(g, for_dy, mf_grad_type(g->x[0]));
    g->dx[1] = as_type(g, for_x, mf_grad_type(g->x[1]));
    g->dx[2] = batch_norm_grad_sum(&n, MUL(MUL(gx, n.r), p_dy));
    return MF_OK;
}
