/* SPDX-License-Identifier: Apache-2.0 */
/* train_options_read.c - reads the options of `meshflow train` into the settings of compile and
 * fit. train_options.c has the table. */
#include "cli/train_options_read.h"

#include "base/log.h"
#include "cli/job.h"
#include "train/loop/replica_check.h"

#include <string.h>

static mf_status read_compile(mf_args *args, mf_compile_options *c)
{
    int64_t micro = 0;

    c->optimizer = mf_args_value(args, "optimizer");
    c->schedule = mf_args_value(args, "schedule");
    c->clip = mf_args_value(args, "clip");
    c->prune = mf_args_value(args, "prune");
    c->guard = mf_args_value(args, "guard");
    c->offload = mf_args_value(args, "offload");
    MF_TRY(mf_args_double(args, "lr", 1e-37, 1e38, &c->learning_rate));
    MF_TRY(mf_args_double(args, "weight-decay", 0.0, 1e9, &c->weight_decay));
    MF_TRY(mf_args_double(args, "ema", 0.0, 0.9999999, &c->ema));
    c->ema_eval = mf_args_has(args, "ema-eval");
    if (c->ema_eval && !mf_args_has(args, "ema"))
        return mf_args_wrong(args, "--ema-eval needs --ema, the decay of the moving average");
    MF_TRY(mf_args_int(args, "micro-batches", 1, 4096, &micro));
    c->micro_batches = (int)micro;
    c->recompute = mf_args_value(args, "recompute");
    c->hogwild = mf_args_has(args, "hogwild");
    if (c->hogwild) /* not refused: scripts for several workers must also run with one */
        MF_WARN("--hogwild has no effect: a process runs one step after the other, and no update "
                "waits for a lock");
    return MF_OK;
}

static mf_status read_slice(mf_args *args, mf_slicing *out)
{
    const char *slice = mf_args_value(args, "slice");

    if (slice && strcmp(slice, "element") != 0 && strcmp(slice, "file") != 0)
        return mf_args_wrong(args, "--slice is element or file, not '%s'", slice);
    *out = slice && strcmp(slice, "file") == 0 ? MF_SLICE_FILE : MF_SLICE_ELEMENT;
    return MF_OK;
}

static mf_status read_fit(mf_args *args, mf_fit_options *f)
{
    int64_t keep = 0, threads = 0, check = MF_CHECK_STEPS;

    f->batch = 32;
    MF_TRY(mf_args_int(args, "epochs", 1, INT64_MAX, &f->epochs));
    MF_TRY(mf_args_int(args, "steps", 1, INT64_MAX, &f->steps));
    MF_TRY(mf_args_int(args, "batch", 1, INT64_MAX, &f->batch));
    MF_TRY(mf_args_int(args, "save-steps", 1, INT64_MAX, &f->save_steps));
    MF_TRY(mf_args_int(args, "summary-steps", 1, INT64_MAX, &f->summary_steps));
    MF_TRY(mf_args_int(args, "keep", 1, 1000000, &keep));
    MF_TRY(mf_args_int(args, "input-threads", 0, 256, &threads));
    MF_TRY(mf_args_int(args, "check-steps", 0, INT64_MAX, &check));
    f->check_steps = check > 0 ? check : -1;
    f->keep = (int)keep;
    f->input_threads = (int)threads;
    MF_TRY(read_slice(args, &f->slice));
    f->near = mf_args_value(args, "near");
    f->out = mf_args_value(args, "out");
    f->trace = mf_args_value(args, "trace");
    f->resume = mf_args_has(args, "resume");
    f->overwrite = mf_args_has(args, "overwrite");
    if (f->overwrite && (f->resume || !f->out))
        return mf_args_wrong(args, f->out ? "--resume continues the training in --out, and "
                                            "--overwrite removes it: choose one"
                                          : "--overwrite needs --out, the directory of the run");
    if (f->resume && !f->out)
        return mf_args_wrong(args, "--resume needs --out, the directory of the run");
    if (f->summary_steps > 0 && !f->out)
        return mf_args_wrong(args, "--summary-steps needs --out, the directory for events");
    return MF_OK;
}

mf_status mf_train_options_read(mf_args *args, mf_compile_options *compile, mf_fit_options *fit)
{
    MF_TRY(read_compile(args, compile));
    return read_fit(args, fit);
}

/* Writes nothing if neither option is given. */
static mf_status read_stop(mf_args *args, mf_buf *out)
{
    static const char name[] = "converged";
    const char *stop = mf_args_value(args, "stop"), *after = mf_args_value(args, "converged-after");
    const size_t n = sizeof name - 1;
    double seconds = 0.0;

    if (stop && (strncmp(stop, name, n) != 0 || (stop[n] != '\0' && stop[n] != ' ')))
        return mf_args_wrong(args, "--stop is converged, with settings, not '%s'", stop);
    MF_TRY(mf_args_double(args, "converged-after", 1e-3, 1e9, &seconds));
    if (stop)
        mf_buf_printf(out, "%s ", stop + n);
    else if (after)
        mf_buf_str(out, "flat=false ");
    if (after)
        mf_buf_printf(out, "after=%.9g", seconds);
    return out->len > 0 ? mf_buf_finish(out) : MF_OK;
}

mf_status mf_train_options_stop(mf_args *args, mf_hook *out)
{
    mf_buf settings = { 0 };
    mf_status st = read_stop(args, &settings);

    memset(out, 0, sizeof *out);
    if (st == MF_OK && settings.len > 0)
        st = mf_hook_converged(settings.data, out);
    mf_buf_deinit(&settings);
    return st;
}
