/* SPDX-License-Identifier: Apache-2.0 */
/* hook_save.c - hooks that write about the loop: checkpoints, and how fast it goes. */
#include "base/host_state.h"
#include "base/log.h"
#include "train/checkpoint/checkpoint.h"
#include "train/loop/hook.h"

#include <string.h>

/* ---- checkpoints ---- */

typedef struct saver {
    char *dir;
    int keep;
    mf_timer timer;
    mf_hook_loop *loop;
    mf_checkpoints *folder; /* NULL: not begun */
} saver;

static mf_status hook_save(saver *h, int64_t step)
{
    mf_buf path = { 0 };
    mf_snapshot *s = NULL;
    mf_events *events;
    mf_status st;

    mf_timer_fire(&h->timer, step, NULL, NULL);
    MF_TRY(h->loop->snapshot(h->loop, &s));
    MF_TRY(mf_checkpoints_put(h->folder, s));
    MF_TRY(mf_hook_loop_events(h->loop, h->dir, &events));
    mf_buf_printf(&path, "%s/model.ckpt", h->dir);
    st = mf_buf_finish(&path);
    if (st == MF_OK)
        st = mf_events_session(events, step, TENSORFLOW__SESSION_LOG__SESSION_STATUS__CHECKPOINT,
                               path.data);
    mf_buf_deinit(&path);
    mf_hook_loop_flush(h->loop);
    return st;
}

static mf_status saver_created(void *ctx, mf_hook_loop *loop)
{
    saver *h = ctx;
    int64_t step;

    h->loop = loop;
    MF_TRY(mf_hook_loop_step(loop, &step));
    if (!h->folder)
        MF_TRY(mf_checkpoints_open(h->dir, h->keep, &h->folder));
    return hook_save(h, step);
}

static mf_status saver_after_run(void *ctx, mf_hook_loop *loop, mf_tensor *const *results)
{
    saver *h = ctx;
    int64_t step;

    (void)results;
    MF_TRY(mf_hook_loop_step(loop, &step));
    return mf_timer_is_due(&h->timer, step) ? hook_save(h, step) : MF_OK;
}

/* The status is that of the last save, once it is on disk. */
static mf_status saver_end(void *ctx, mf_trainer *trainer)
{
    saver *h = ctx;
    mf_checkpoints *folder = h->folder;
    mf_status st = MF_OK, closed;
    int64_t step;

    (void)trainer;
    if (!folder)
        return MF_OK;
    if (!h->loop->failed) {
        st = mf_hook_loop_step(h->loop, &step);
        if (st == MF_OK && step != h->timer.last_step)
            st = hook_save(h, step);
    }
    h->folder = NULL;
    closed = mf_checkpoints_close(folder);
    return st == MF_OK ? closed : st;
}

static void saver_release(void *ctx)
{
    saver *h = ctx;

    if (mf_checkpoints_close(h->folder) != MF_OK) /* a loop that has failed ends without `end` */
        MF_WARN("%s", mf_error_message());
    mf_free(h->dir);
    mf_free(h);
}

mf_status mf_hook_checkpoint(const char *dir, mf_every every, int keep, mf_hook *out)
{
    MF_ENTRY;
    MF_NEED(dir, out);

    saver *h;

    memset(out, 0, sizeof *out);
    MF_TRY(mf_every_check(&every));
    h = mf_calloc(1, sizeof *h);
    if (!h || !(h->dir = mf_strdup(dir))) {
        mf_free(h);
        return MF_NOMEM("a hook");
    }
    h->keep = keep;
    h->timer.every = every;
    *out = (mf_hook){ .ctx = h,
                      .after_create_session = saver_created,
                      .after_run = saver_after_run,
                      .end = saver_end,
                      .release = saver_release };
    return MF_OK;
}

/* ---- steps per second ---- */

typedef struct counter {
    char *dir; /* NULL: the log only */
    mf_timer timer;
} counter;

static mf_status counter_after_run(void *ctx, mf_hook_loop *loop, mf_tensor *const *results)
{
    counter *h = ctx;
    mf_events *events;
    int64_t step, steps;
    double seconds, rate;

    (void)results;
    MF_TRY(mf_hook_loop_step(loop, &step));
    if (!mf_timer_is_due(&h->timer, step))
        return MF_OK;
    mf_timer_fire(&h->timer, step, &steps, &seconds);
    if (seconds <= 0)
        return MF_OK;
    rate = (double)steps / seconds;
    MF_INFO("global_step/sec: %g", rate);
    if (!h->dir)
        return MF_OK;
    MF_TRY(mf_hook_loop_events(loop, h->dir, &events));
    return mf_events_scalars(events, step, &(mf_event_scalar){ "global_step/sec", rate }, 1);
}

static void counter_release(void *ctx)
{
    counter *h = ctx;

    mf_free(h->dir);
    mf_free(h);
}

mf_status mf_hook_step_counter(mf_every every, const char *dir, mf_hook *out)
{
    MF_ENTRY;
    MF_NEED(out);

    counter *h;

    memset(out, 0, sizeof *out);
    MF_TRY(mf_every_check(&every));
    h = mf_calloc(1, sizeof *h);
    if (!h || (dir && !(h->dir = mf_strdup(dir)))) {
        mf_free(h);
        return MF_NOMEM("a hook");
    }
    h->timer.every = every;
    *out = (mf_hook){ .ctx = h, .after_run = counter_after_run, .release = counter_release };
    return MF_OK;
}
