/* SPDX-License-Identifier: Apache-2.0 */
/* input_autotune.c - moves threads between input pipeline and compute by measured waits. */
#include "train/loop/input_autotune.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/param.h"
#include "data/dataset.h"
#include "observe/status_page.h"

MF_PARAM_INT(input_autotune_ms, 500, "interval in ms of measuring how long steps wait for input");
MF_PARAM_INT(input_autotune_percent, 10,
             "percentage of time waiting for input that makes a compute thread "
             "an input thread");

enum { STEPS = 10, PATIENCE = 4, MOST_PATIENCE = 1024 };

static void input_autotune_show(const mf_input_autotune *b, const mf_trainer *t)
{
    mf_status_page_threads(mf_pool_threads(t->pool), b->input);
}

void mf_input_autotune_init(mf_input_autotune *b, mf_trainer *t, int input)
{
    *b = (mf_input_autotune){ .fixed = input > 0 || t->options.threads > 0,
                              .input = input > 0 ? input : 1,
                              .since = mf_clock_ns(),
                              .patience = PATIENCE };
    input_autotune_show(b, t);
}

static mf_status input_autotune_move(mf_input_autotune *b, mf_trainer *t, mf_iterator *it,
                                     int to_input)
{
    MF_TRY(mf_iterator_set_threads(it, b->input + to_input));
    b->input += to_input;
    if (mf_pool_resize(t->pool, mf_pool_threads(t->pool) - to_input) != MF_OK) {
        MF_WARN("threads stay as they are: %s", mf_error_message());
        b->fixed = true;
    }
    MF_INFO("from step %lld on %d threads make batches and %d compute", (long long)t->step + 1,
            b->input, mf_pool_threads(t->pool));
    input_autotune_show(b, t);
    return MF_OK;
}

/* A period is over, of which this percentage was spent waiting. */
static mf_status input_autotune_decide(mf_input_autotune *b, mf_trainer *t, mf_iterator *it,
                                       double rate, double waits)
{
    const double most = (double)MF_PARAM(input_autotune_percent);
    const int trial = b->trial;

    b->trial = 0;
    if (trial != 0 && rate <= b->before) {
        b->pause = b->patience;
        b->patience = 2 * b->patience < MOST_PATIENCE ? 2 * b->patience : MOST_PATIENCE;
        return input_autotune_move(b, t, it, -trial);
    }
    if (b->pause > 0) {
        b->pause--;
        return MF_OK;
    }
    if (waits > most && mf_pool_threads(t->pool) > 1)
        b->trial = +1;
    else if (waits < most / 10 && b->input > 1)
        b->trial = -1;
    b->before = rate;
    return b->trial != 0 ? input_autotune_move(b, t, it, b->trial) : MF_OK;
}

mf_status mf_input_autotune_step(mf_input_autotune *b, mf_trainer *t, mf_iterator *it,
                                 int64_t waited_ns)
{
    const int64_t now = mf_clock_ns(), time = now - b->since;
    const int64_t waited = b->waited_ns += waited_ns, steps = ++b->steps;

    if (b->fixed || steps < STEPS || time < MF_PARAM(input_autotune_ms) * 1000000)
        return MF_OK;
    b->since = now;
    b->waited_ns = b->steps = 0;
    return input_autotune_decide(b, t, it, (double)steps / (double)time,
                                 100.0 * (double)waited / (double)time);
}

void mf_input_autotune_fix(mf_input_autotune *b, mf_trainer *t, int threads)
{
    if (mf_pool_resize(t->pool, threads) != MF_OK)
        MF_WARN("%s", mf_error_message());
    b->fixed = true;
    MF_INFO("%d threads compute from step %lld on", mf_pool_threads(t->pool),
            (long long)t->step + 1);
    input_autotune_show(b, t);
}
