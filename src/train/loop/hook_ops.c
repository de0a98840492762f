/* SPDX-License-Identifier: Apache-2.0 */
/* hook_ops.c - hooks that add to runs: feeds, final ops, tensors for the log, traces. */
#include "base/file.h"
#include "base/host_state.h"
#include "base/log.h"
#include "train/loop/hook.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* ---- feeds ---- */

typedef struct feeder {
    mf_feed_fn *fn;
    void *ctx;
} feeder;

static mf_status feed_before_run(void *ctx, mf_hook_loop *loop, mf_run_request *request)
{
    const feeder *h = ctx;

    (void)loop;
    MF_CALLBACK;
    MF_TRY(h->fn(h->ctx, request));
    request->n_fetches = 0; /* their results would not be used */
    return MF_OK;
}

mf_status mf_hook_feed(mf_feed_fn *fn, void *ctx, mf_hook *out)
{
    MF_ENTRY;
    MF_NEED(out);
    MF_NEED_FUNCTION(fn);

    feeder *h = mf_calloc(1, sizeof *h);

    memset(out, 0, sizeof *out);
    if (!h)
        return MF_NOMEM("a hook");
    *h = (feeder){ fn, ctx };
    *out = (mf_hook){ .ctx = h, .before_run = feed_before_run, .release = mf_free };
    return MF_OK;
}

/* ---- final ops, and tensors for the log: fetches and their values ---- */

typedef struct fetcher {
    mf_hook_names names;
    mf_tensor **values; /* one for each name */
    mf_hook_loop *loop; /* NULL: it has not begun */
    bool done; /* final ops: values are set */
    mf_timer timer; /* log */
    bool use_timer, at_end, wanted;
    int64_t runs; /* so far */
} fetcher;

static void fetcher_release(void *ctx)
{
    fetcher *h = ctx;

    for (int i = 0; h->values && i < h->names.n; i++)
        mf_tensor_free(h->values[i]);
    mf_free(h->values);
    mf_hook_names_deinit(&h->names);
    mf_free(h);
}

static mf_status fetcher_new(const char *const *names, int n, fetcher **out)
{
    fetcher *h = mf_calloc(1, sizeof *h);
    mf_status st;

    if (!h)
        return MF_NOMEM("a hook");
    st = mf_hook_names_init(&h->names, names, n);
    h->values = mf_calloc(n + 1, sizeof *h->values);
    if (st == MF_OK && !h->values)
        st = MF_NOMEM("a hook");
    if (st == MF_OK && n < 1)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "the hook is given no tensors");
    if (st != MF_OK)
        fetcher_release(h);
    else
        *out = h;
    return st;
}

static mf_status fetcher_created(void *ctx, mf_hook_loop *loop)
{
    ((fetcher *)ctx)->loop = loop;
    return MF_OK;
}

static mf_status final_end(void *ctx, mf_trainer *trainer)
{
    fetcher *h = ctx;

    (void)trainer;
    if (!h->loop || h->loop->failed)
        return MF_OK;
    MF_TRY(mf_hook_names_run(&h->names, h->loop, h->values));
    h->done = true;
    return MF_OK;
}

mf_status mf_hook_final_ops(const char *const *fetches, int n, mf_hook *out)
{
    MF_ENTRY;
    MF_NEED(out);
    MF_NEED_ALL(fetches, n);

    fetcher *h;

    memset(out, 0, sizeof *out);
    MF_TRY(fetcher_new(fetches, n, &h));
    *out = (mf_hook){ .ctx = h,
                      .after_create_session = fetcher_created,
                      .end = final_end,
                      .release = fetcher_release };
    return MF_OK;
}

mf_tensor *const *mf_hook_final_values(const mf_hook *hook)
{
    if (!hook)
        return NULL;

    const fetcher *h = hook->ctx;

    return hook->end == final_end && h->done ? h->values : NULL;
}

/* ---- the log ---- */

enum { SHOWN = 8 }; /* elements of a tensor */

static void write_log(fetcher *h, mf_tensor *const *values)
{
    mf_buf line = { 0 };
    double seconds;

    mf_timer_fire(&h->timer, h->runs, NULL, &seconds);
    for (int i = 0; i < h->names.n; i++) {
        mf_buf_printf(&line, "%s%s = ", i ? ", " : "", h->names.at[i]);
        if (values[i]->count == 1 && mf_dtype_is_plain(values[i]->dtype))
            mf_buf_printf(&line, "%.7g", mf_tensor_float_at(values[i], 0));
        else
            mf_tensor_print(values[i], SHOWN, &line);
    }
    if (seconds > 0)
        mf_buf_printf(&line, " (%.3f s)", seconds);
    if (line.data)
        MF_INFO("%s", line.data);
    mf_buf_deinit(&line);
}

static mf_status log_before_run(void *ctx, mf_hook_loop *loop, mf_run_request *request)
{
    fetcher *h = ctx;

    (void)loop;
    h->wanted = h->use_timer && mf_timer_is_due(&h->timer, h->runs);
    if (h->wanted)
        mf_hook_names_fetch(&h->names, request);
    return MF_OK;
}

static mf_status log_after_run(void *ctx, mf_hook_loop *loop, mf_tensor *const *results)
{
    fetcher *h = ctx;

    (void)loop;
    if (h->wanted)
        write_log(h, results);
    h->runs++;
    return MF_OK;
}

static mf_status log_end(void *ctx, mf_trainer *trainer)
{
    fetcher *h = ctx;

    (void)trainer;
    if (!h->at_end || !h->loop || h->loop->failed)
        return MF_OK;
    MF_TRY(mf_hook_names_run(&h->names, h->loop, h->values));
    write_log(h, h->values);
    return MF_OK;
}

mf_status mf_hook_logging(const char *const *tensors, int n, mf_every every, bool at_end,
                          mf_hook *out)
{
    MF_ENTRY;
    MF_NEED(out);
    MF_NEED_ALL(tensors, n);

    const bool timed = every.steps != 0 || every.seconds != 0;
    fetcher *h;

    memset(out, 0, sizeof *out);
    if (timed || !at_end)
        MF_TRY(mf_every_check(&every));
    MF_TRY(fetcher_new(tensors, n, &h));
    h->timer.every = every;
    h->use_timer = timed;
    h->at_end = at_end;
    *out = (mf_hook){ .ctx = h,
                      .after_create_session = fetcher_created,
                      .before_run = log_before_run,
                      .after_run = log_after_run,
                      .end = log_end,
                      .release = fetcher_release };
    return MF_OK;
}

/* ---- traces ---- */

typedef struct profiler {
    char *dir;
    mf_timer timer;
    mf_buf path; /* of the current trace */
    int64_t next; /* step of the next run, if it counts one; -1: there was no run yet */
} profiler;

static mf_status profiler_before_run(void *ctx, mf_hook_loop *loop, mf_run_request *request)
{
    profiler *h = ctx;

    (void)loop;
    if (h->next < 0 || !mf_timer_is_due(&h->timer, h->next))
        return MF_OK;
    mf_buf_clear(&h->path);
    mf_buf_printf(&h->path, "%s/timeline-%lld.json", h->dir, (long long)h->next);
    request->trace_path = h->path.data;
    mf_timer_fire(&h->timer, h->next, NULL, NULL);
    return mf_buf_finish(&h->path);
}

static mf_status profiler_after_run(void *ctx, mf_hook_loop *loop, mf_tensor *const *results)
{
    profiler *h = ctx;
    int64_t step;

    (void)results;
    MF_TRY(mf_hook_loop_step(loop, &step));
    if (h->next < 0) /* the first time is so much later */
        mf_timer_fire(&h->timer, step, NULL, NULL);
    h->next = step + 1;
    return MF_OK;
}

static void profiler_release(void *ctx)
{
    profiler *h = ctx;

    mf_buf_deinit(&h->path);
    mf_free(h->dir);
    mf_free(h);
}

mf_status mf_hook_profiler(const char *dir, mf_every every, mf_hook *out)
{
    MF_ENTRY;
    MF_NEED(dir, out);

    profiler *h;

    memset(out, 0, sizeof *out);
    MF_TRY(mf_every_check(&every));
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return mf_errno_status(errno, "create", dir);
    h = mf_calloc(1, sizeof *h);
    if (!h || !(h->dir = mf_strdup(dir))) {
        mf_free(h);
        return MF_NOMEM("a hook");
    }
    h->timer.every = every;
    h->next = -1;
    *out = (mf_hook){ .ctx = h,
                      .before_run = profiler_before_run,
                      .after_run = profiler_after_run,
                      .release = profiler_release };
    return MF_OK;
}
