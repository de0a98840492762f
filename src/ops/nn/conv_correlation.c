/* SPDX-License-Identifier: Apache-2.0 */
/* conv_correlation.c - the geometry of convolutions and input gradients. */
#include "ops/nn/conv_correlation.h"

/* Remainders modulo the stride along dimension d; with a large stride, some remainders do not
 * occur. */
static int64_t phases_of(const mf_conv *conv, int d)
{
    const mf_window *w = &conv->window;

    if (conv->kind == MF_CONV_FORWARD)
        return 1;
    return w->stride[d] < w->in[d] ? w->stride[d] : w->in[d];
}

int64_t mf_correlation_count(const mf_conv *conv)
{
    int64_t n = 1;

    for (int d = 0; d < conv->window.nd; d++)
        n *= phases_of(conv, d);
    return n;
}

int64_t mf_correlation_storage(const mf_conv *conv)
{
    int64_t n = 0;

    for (int d = 0; d < conv->window.nd; d++)
        n += 2 * conv->window.size[d];
    return n;
}

int64_t mf_correlation_taps(const mf_correlation *c)
{
    int64_t n = 1;

    for (int d = 0; d < c->nd; d++)
        n *= c->line[d].n;
    return n;
}

/* ---- one dimension ---- */

static void forward_line(const mf_window *w, int d, int64_t *tap, int64_t *at, mf_correlation *c)
{
    for (int64_t t = 0; t < w->size[d]; t++) {
        tap[t] = t;
        at[t] = t * w->dilation[d];
    }
    c->line[d] = (mf_tap_line){ w->size[d], tap, at };
    c->lo[d] = w->pad_lo[d];
    c->stride[d] = w->stride[d];
    c->in[d] = w->in[d];
    c->out[d] = c->out_size[d] = w->out[d];
    c->out_step[d] = 1;
    c->out_first[d] = 0;
}

/* Positions `phase`, phase + stride, ... of the input. Output o contributed to position
 * o * stride + t * dilation - pad_lo by tap t. */
static void phase_line(const mf_window *w, int d, int64_t phase, int64_t *tap, int64_t *at,
                       mf_correlation *c)
{
    const int64_t stride = w->stride[d];
    int64_t n = 0;

    for (int64_t t = w->size[d] - 1; t >= 0; t--) {
        const int64_t o = phase + w->pad_lo[d] - t * w->dilation[d];

        if (o % stride != 0)
            continue;
        tap[n] = t;
        at[n++] = o / stride;
    }
    c->lo[d] = n > 0 ? -at[0] : 0;
    for (int64_t i = 0; i < n; i++)
        at[i] += c->lo[d];
    c->line[d] = (mf_tap_line){ n, tap, at };
    c->stride[d] = 1;
    c->in[d] = w->out[d];
    c->out_size[d] = w->in[d];
    c->out[d] = (w->in[d] - phase + stride - 1) / stride;
    c->out_step[d] = stride;
    c->out_first[d] = phase;
}

void mf_correlation_init(const mf_conv *conv, int64_t i, int64_t *storage, mf_correlation *out)
{
    const mf_window *w = &conv->window;
    const bool forward = conv->kind == MF_CONV_FORWARD;

    *out = (mf_correlation){ .nd = w->nd,
                             .channels = forward ? w->channels : conv->out_channels,
                             .out_channels = forward ? conv->out_channels : w->channels,
                             .transposed = !forward };
    for (int d = w->nd - 1; d >= 0; d--) {
        int64_t *tap = storage, *at = storage + w->size[d];

        storage += 2 * w->size[d];
        if (forward)
            forward_line(w, d, tap, at, out);
        else
            phase_line(w, d, i % phases_of(conv, d), tap, at, out);
        i /= phases_of(conv, d);
        out->extent[d] =
            out->line[d].n > 0 && out->out[d] > 0
                ? (out->out[d] - 1) * out->stride[d] + out->line[d].at[out->line[d].n - 1] + 1
                : 0;
    }
}

/* ---- runs ---- */

int mf_correlation_runs(const mf_correlation *c, const int64_t *step, int64_t channels, bool merge,
                        mf_tap_run *runs)
{
    const int last = c->nd - 1;
    const int64_t taps = mf_correlation_taps(c);
    int n = 0;

    for (int64_t i = 0; i < taps; i++) {
        int64_t at = 0, rest = i;

        for (int d = last; d >= 0; d--) {
            at += c->line[d].at[rest % c->line[d].n] * step[d];
            rest /= c->line[d].n;
        }
        if (merge && i % c->line[last].n > 0 && runs[n - 1].at + runs[n - 1].length == at)
            runs[n - 1].length += channels;
        else
            runs[n++] = (mf_tap_run){ at, channels };
    }
    return n;
}
