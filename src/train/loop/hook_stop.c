/* SPDX-License-Identifier: Apache-2.0 */
/* hook_stop.c - hooks that control begin and end: stop at a step, stop at a loss that is NaN/Inf,
 * wait for a step. */
#include "base/host_state.h"
#include "base/log.h"
#include "train/loop/hook.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* ---- stop at step ---- */

typedef struct stop_at {
    int64_t last; /* 0: not known yet */
    int64_t n;
} stop_at;

static mf_status stop_at_created(void *ctx, mf_hook_loop *loop)
{
    stop_at *h = ctx;
    int64_t step;

    if (h->last > 0)
        return MF_OK;
    MF_TRY(mf_hook_loop_step(loop, &step));
    h->last = step + h->n;
    return MF_OK;
}

static mf_status stop_at_after_run(void *ctx, mf_hook_loop *loop, mf_tensor *const *results)
{
    const stop_at *h = ctx;
    int64_t step;

    (void)results;
    MF_TRY(mf_hook_loop_step(loop, &step));
    if (step >= h->last)
        mf_hook_loop_stop(loop);
    return MF_OK;
}

mf_status mf_hook_stop_at_step(int64_t last_step, int64_t n_steps, mf_hook *out)
{
    MF_ENTRY;
    MF_NEED(out);

    stop_at *h;

    memset(out, 0, sizeof *out);
    if (last_step < 0 || n_steps < 0 || (last_step > 0) == (n_steps > 0))
        return MF_FAIL(MF_INVALID_ARGUMENT, "give either the last step or the number of steps");
    h = mf_calloc(1, sizeof *h);
    if (!h)
        return MF_NOMEM("a hook");
    *h = (stop_at){ last_step, n_steps };
    *out = (mf_hook){ .ctx = h,
                      .after_create_session = stop_at_created,
                      .after_run = stop_at_after_run,
                      .release = mf_free };
    return MF_OK;
}

/* ---- a loss that is NaN/Inf ---- */

typedef struct nan_guard {
    mf_hook_names loss; /* one, or none */
    bool fail;
} nan_guard;

static mf_status nan_before_run(void *ctx, mf_hook_loop *loop, mf_run_request *request)
{
    const nan_guard *h = ctx;

    (void)loop;
    mf_hook_names_fetch(&h->loss, request);
    return MF_OK;
}

static bool has_nan(const mf_tensor *t)
{
    for (int64_t i = 0; mf_dtype_is_plain(t->dtype) && i < t->count; i++) {
        if (isnan(mf_tensor_float_at(t, i)))
            return true;
    }
    return false;
}

static mf_status nan_after_run(void *ctx, mf_hook_loop *loop, mf_tensor *const *results)
{
    const nan_guard *h = ctx;

    if (h->loss.n == 0 || !has_nan(results[0]))
        return MF_OK;
    if (h->fail)
        return MF_FAIL(MF_INVALID_ARGUMENT, "the model diverged: %s is NaN", h->loss.at[0]);
    MF_WARN("the model diverged: %s is NaN; training stops", h->loss.at[0]);
    mf_hook_loop_stop(loop);
    return MF_OK;
}

/* The message of CheckNumerics. */
static bool nan_forgive(void *ctx, mf_hook_loop *loop, mf_status why)
{
    const nan_guard *h = ctx;

    (void)loop;
    if (h->fail || why != MF_INVALID_ARGUMENT || !strstr(mf_error_message(), "Tensor had "))
        return false;
    MF_WARN("training stops: %s", mf_error_message());
    return true;
}

static void nan_release(void *ctx)
{
    nan_guard *h = ctx;

    mf_hook_names_deinit(&h->loss);
    mf_free(h);
}

mf_status mf_hook_nan_guard(const char *loss, bool fail, mf_hook *out)
{
    MF_ENTRY;
    MF_NEED(out);

    nan_guard *h = mf_calloc(1, sizeof *h);
    mf_status st;

    memset(out, 0, sizeof *out);
    if (!h)
        return MF_NOMEM("a hook");
    h->fail = fail;
    st = mf_hook_names_init(&h->loss, &loss, loss ? 1 : 0);
    if (st != MF_OK) {
        nan_release(h);
        return st;
    }
    *out = (mf_hook){ .ctx = h,
                      .before_run = loss ? nan_before_run : NULL,
                      .after_run = loss ? nan_after_run : NULL,
                      .forgive = nan_forgive,
                      .release = nan_release };
    return MF_OK;
}

/* ---- waiting for others ---- */

enum { WAIT_MS_MAX = 500 };

typedef struct hook_stop_waiter {
    int64_t until;
    bool started;
} hook_stop_waiter;

static mf_status waiter_before_run(void *ctx, mf_hook_loop *loop, mf_run_request *request)
{
    hook_stop_waiter *h = ctx;

    (void)request;
    for (int64_t ms = 1; !h->started; ms = ms * 2 < WAIT_MS_MAX ? ms * 2 : WAIT_MS_MAX) {
        const struct timespec pause = { ms / 1000, (long)(ms % 1000) * 1000000 };
        int64_t step;

        if (atomic_load(&loop->stop))
            return MF_OK;
        MF_TRY(mf_hook_loop_step(loop, &step));
        h->started = step >= h->until;
        if (h->started)
            return MF_OK;
        if (ms == 1)
            MF_INFO("waiting for step %lld; now it is %lld", (long long)h->until, (long long)step);
        if (!loop->coordinator)
            nanosleep(&pause, NULL);
        else if (mf_coordinator_wait_for_stop(loop->coordinator, ms))
            return MF_OK;
    }
    return MF_OK;
}

mf_status mf_hook_global_step_waiter(int64_t step, mf_hook *out)
{
    MF_ENTRY;
    MF_NEED(out);

    hook_stop_waiter *h = mf_calloc(1, sizeof *h);

    memset(out, 0, sizeof *out);
    if (!h)
        return MF_NOMEM("a hook");
    h->until = step;
    *out = (mf_hook){ .ctx = h, .before_run = waiter_before_run, .release = mf_free };
    return MF_OK;
}
