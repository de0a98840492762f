/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_ckpt_diff.c - `meshflow ckpt diff`: the differences of two checkpoints. */
#include "base/mem.h"
#include "cli/ckpt.h"
#include "cli/text.h"

#include <math.h>
#include <string.h>

typedef struct diff {
    mf_tensors *a, *b;
    int64_t only_a, only_b, other, changed, same; /* counts of tensors */
    double largest; /* over all tensors */
    mf_buf out; /* one line for each tensor that differs */
} diff;

static bool cmd_ckpt_diff_same_strings(const mf_tensor *a, const mf_tensor *b)
{
    for (int64_t i = 0; i < a->count; i++) {
        const mf_string *x = (const mf_string *)a->data + i, *y = (const mf_string *)b->data + i;

        if (x->len != y->len || (x->len > 0 && memcmp(x->data, y->data, x->len) != 0))
            return false;
    }
    return true;
}

static bool same_bits(const mf_tensor *a, const mf_tensor *b)
{
    if (a->dtype == MF_DTYPE_STRING)
        return cmd_ckpt_diff_same_strings(a, b);
    return a->count == 0 ||
           memcmp(a->data, b->data, (size_t)a->count * mf_dtype_size(a->dtype)) == 0;
}

static bool has_numbers(mf_dtype dtype)
{
    return mf_dtype_is_float(dtype) || mf_dtype_is_int(dtype) || dtype == MF_DTYPE_BOOL;
}

/* Same type and shape, different bits. A NaN differs infinitely from a number. */
static void print_changed(diff *d, const char *name, const mf_tensor *a, const mf_tensor *b)
{
    double largest = 0;
    int64_t n = 0;
    char count[MF_TEXT], of[MF_TEXT];

    d->changed++;
    if (!has_numbers(a->dtype)) {
        mf_buf_printf(&d->out, "  %s: different values\n", name);
        return;
    }
    for (int64_t i = 0; i < a->count; i++) {
        const double x = mf_ckpt_number(a, i), y = mf_ckpt_number(b, i);
        const double far = isnan(x) != isnan(y)               ? INFINITY
                           : x == y || (isnan(x) && isnan(y)) ? 0
                                                              : fabs(x - y);

        largest = far > largest ? far : largest;
        n += far > 0;
    }
    d->largest = largest > d->largest ? largest : d->largest;
    mf_buf_printf(&d->out, "  %s: %s of %s elements differ, by at most %.6g\n", name,
                  mf_cli_count(n, count), mf_cli_count(a->count, of), largest);
}

static mf_status cmd_ckpt_diff_compare(diff *d, const char *name, int64_t i, int64_t k)
{
    char x[MF_SHAPE_TEXT], y[MF_SHAPE_TEXT];
    mf_tensor a = { 0 }, b = { 0 };
    mf_status st = mf_tensors_read(d->a, i, &a);

    if (st == MF_OK)
        st = mf_tensors_read(d->b, k, &b);
    if (st != MF_OK) {
        /* nothing to compare */
    } else if (a.dtype != b.dtype || !mf_shape_equal(&a.shape, &b.shape)) {
        d->other++;
        mf_buf_printf(&d->out, "  %s: %s%s and %s%s\n", name, mf_dtype_name(a.dtype),
                      mf_shape_text(&a.shape, x), mf_dtype_name(b.dtype),
                      mf_shape_text(&b.shape, y));
    } else if (same_bits(&a, &b)) {
        d->same++;
    } else {
        print_changed(d, name, &a, &b);
    }
    mf_tensor_clear(&a);
    mf_tensor_clear(&b);
    return st;
}

/* Both lists are sorted and merged. */
static mf_status compare_all(diff *d)
{
    const int64_t n = mf_tensors_count(d->a), m = mf_tensors_count(d->b);

    for (int64_t i = 0, k = 0; i < n || k < m;) {
        const char *x = i < n ? mf_tensors_name(d->a, i) : NULL;
        const char *y = k < m ? mf_tensors_name(d->b, k) : NULL;
        const int order = !x ? 1 : !y ? -1 : strcmp(x, y);

        if (strcmp(order <= 0 ? x : y, "_meshflow/run") == 0) {
            /* training state differs between any two trainings and is not compared */
        } else if (order < 0) {
            mf_buf_printf(&d->out, "  %s: only in the first\n", x);
            d->only_a++;
        } else if (order > 0) {
            mf_buf_printf(&d->out, "  %s: only in the second\n", y);
            d->only_b++;
        } else {
            MF_TRY(cmd_ckpt_diff_compare(d, x, i, k));
        }
        i += order <= 0;
        k += order >= 0;
    }
    return MF_OK;
}

static mf_status cmd_ckpt_diff_print(mf_args *args, diff *d)
{
    const int64_t differ = d->only_a + d->only_b + d->other + d->changed;
    mf_buf out = { 0 };

    if (mf_args_has(args, "json")) {
        mf_buf_printf(&out,
                      "{\"same\":%lld,\"changed\":%lld,\"other_type_or_shape\":%lld,"
                      "\"only_in_first\":%lld,\"only_in_second\":%lld,\"largest_difference\":",
                      (long long)d->same, (long long)d->changed, (long long)d->other,
                      (long long)d->only_a, (long long)d->only_b);
        mf_buf_printf(&out, isfinite(d->largest) ? "%.17g}\n" : "\"inf\"}\n", d->largest);
        return mf_cli_print(&out);
    }
    mf_buf_bytes(&out, d->out.data ? d->out.data : "", d->out.len);
    if (differ == 0)
        mf_buf_printf(&out, "all %lld tensors are equal bit by bit\n", (long long)d->same);
    else
        mf_buf_printf(&out, "%lld tensors differ, by at most %.6g; %lld are equal bit by bit\n",
                      (long long)differ, d->largest, (long long)d->same);
    return mf_cli_print(&out);
}

static mf_status cmd_ckpt_diff_run(mf_args *args)
{
    char *path_a = NULL, *path_b = NULL;
    diff d = { 0 };
    mf_status st;

    MF_TRY_TO(done, mf_ckpt_open(args, args->words[0], &d.a, &path_a));
    MF_TRY_TO(done, mf_ckpt_open(args, args->words[1], &d.b, &path_b));
    MF_TRY_TO(done, compare_all(&d));
    MF_TRY_TO(done, cmd_ckpt_diff_print(args, &d));
    if (d.only_a + d.only_b + d.other + d.changed > 0)
        st = MF_FAIL(MF_FAILED_PRECONDITION, "%s and %s differ", path_a, path_b);
done:
    mf_buf_deinit(&d.out);
    mf_tensors_close(d.a);
    mf_tensors_close(d.b);
    mf_free(path_a);
    mf_free(path_b);
    return st;
}

static const mf_option options[] = {
    { .name = "json", .help = "print one JSON object with counts and the largest difference" },
    { 0 },
};

const mf_command mf_command_ckpt_diff = {
    .name = "ckpt diff",
    .arguments = "CKPT CKPT",
    .summary = "show the differences of two checkpoints",
    .about = "Lists names that only one checkpoint has, different types and shapes, and for all "
             "other tensors the largest difference. The formats may differ. As with diff(1), the "
             "exit code is 1 when there is a difference.",
    .options = options,
    .examples =
        (const char *const[]){ "meshflow ckpt diff run/model.ckpt-100 run/model.ckpt-200", NULL },
    .min_args = 2,
    .max_args = 2,
    .run = cmd_ckpt_diff_run,
};
