/* SPDX-License-Identifier: Apache-2.0 */
/* job_data.c - opens the samples for training, validation and test of a job. */
#include "cli/job_data.h"

#include "data/source.h"

#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

/* Pairs are made of the opened data and have their own columns. */
static mf_expected job_data_expected(const mf_job *job, const mf_args *args)
{
    const mf_schema *schema = job->note.schema.n > 0 ? &job->note.schema
                              : job->schema.n > 0    ? &job->schema
                                                     : NULL;

    return (mf_expected){ .schema = mf_args_has(args, "pairs") ? NULL : schema,
                          .label_optional = job->label_optional };
}

static mf_status open_set(mf_job *job, const mf_args *args, const char *data, bool test,
                          mf_opened *out)
{
    const mf_opening how = { .settings = mf_args_value(args, "set"),
                             .defaults = job->note.settings,
                             .format = job->note.format,
                             .test = test,
                             .expected = job_data_expected(job, args) };

    return mf_source_open(data, &how, out);
}

/* ---- comparing data ---- */

bool mf_job_is_same_data(const char *a, const char *b)
{
    char *x, *y;
    bool same;

    if (!a || !b)
        return false;
    if (strcmp(a, b) == 0)
        return true;
    x = realpath(a, NULL);
    y = realpath(b, NULL);
    same = x && y && strcmp(x, y) == 0;
    free(x);
    free(y);
    return same;
}

static mf_status set_test_source(mf_job *job, const char *before, const char *data,
                                 const char *after)
{
    job->test_from = mf_arena_printf(job->arena, "%s%s%s", before, data, after);
    return job->test_from ? MF_OK : MF_NOMEM("a test");
}

/* ---- test data ---- */

/* With such a setting the same data may have other samples. */
static bool names_part(const mf_args *args)
{
    const char *set = mf_args_value(args, "set");

    return set && strstr(set, "part=");
}

static mf_status open_named_test(mf_job *job, const mf_args *args, const char *data)
{
    mf_opened o;

    MF_TRY(open_set(job, args, data, true, &o));
    job->test = o.set;
    if (o.has_test)
        return set_test_source(job, "the test part of ", data, "");
    if (mf_job_is_same_data(data, job->data_text) && !names_part(args))
        return set_test_source(job, "", data, ", which is the training data itself");
    return names_part(args) ? set_test_source(job, data, ", ", mf_args_value(args, "set"))
                            : set_test_source(job, "", data, "");
}

/* first: NULL: only the test part is needed. */
static mf_status job_data_split(mf_job *job, mf_dataset *all, double fraction, uint64_t seed,
                                mf_dataset **first)
{
    mf_dataset *rest;

    MF_TRY(mf_dataset_split(all, 1.0 - fraction, seed, &rest, &job->test));
    if (mf_dataset_count(job->test) == 0 || mf_dataset_count(rest) == 0) {
        mf_dataset_unref(rest);
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "'%.200s' has %lld samples, too few to keep some for a test; give --test "
                       "DATA, or --no-test",
                       job->data_text, (long long)mf_dataset_count(all));
    }
    job->test_from = mf_arena_printf(job->arena, "%g %% of %s, drawn by sample id and seed %llu",
                                     100.0 * fraction, job->data_text, (unsigned long long)seed);
    if (first && job->test_from)
        *first = rest;
    else
        mf_dataset_unref(rest);
    return job->test_from ? MF_OK : MF_NOMEM("a test");
}

/* ---- training data ---- */

static mf_status split_training(mf_job *job, double fraction, uint64_t seed)
{
    mf_dataset *rest;

    MF_TRY(job_data_split(job, job->train, fraction, seed, &rest));
    mf_dataset_unref(job->train);
    job->train = rest;
    job->split = fraction;
    return MF_OK;
}

/* The test samples of an earlier training stay test samples. */
static mf_status open_training(mf_job *job, const mf_args *args)
{
    const char *test = mf_args_value(args, "test");
    const bool again = mf_job_is_same_data(job->data_text, job->note.data);
    const double fraction = again ? job->note.split : MF_TEST_SPLIT;
    mf_opened o;

    MF_TRY(open_set(job, args, job->data_text, false, &o));
    job->train = o.set;
    job->format = o.format;
    job->samples = mf_dataset_count(o.set);
    MF_TRY(mf_schema_of(job->train, job->arena, &job->schema));
    if (mf_args_has(args, "no-test") && !(again && job->note.split > 0.0))
        return MF_OK;
    if (!test && again)
        test = job->note.test;
    if (test)
        return open_named_test(job, args, test);
    if (o.has_test)
        return open_named_test(job, args, job->data_text);
    return split_training(job, fraction > 0.0 ? fraction : MF_TEST_SPLIT,
                          again ? (uint64_t)job->note.seed : job->compile.seed);
}

/* ---- data for a trained model ---- */

/* The samples of its data that the training has not used. */
static mf_status take_unseen(mf_job *job, mf_dataset *all)
{
    const mf_model_note *n = &job->note;

    if (n->samples != mf_dataset_count(all))
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "'%.200s' had %lld samples when the model was trained and has %lld now, "
                       "so its test samples are unknown; give --test DATA",
                       job->data_text, (long long)n->samples, (long long)mf_dataset_count(all));
    return job_data_split(job, all, n->split, (uint64_t)n->seed, NULL);
}

static mf_status job_data_open_trained(mf_job *job, mf_args *args)
{
    const mf_model_note *n = &job->note;
    const char *test = mf_args_value(args, "test");
    const bool known = mf_job_is_same_data(job->data_text, n->data) && !names_part(args);
    mf_opened o;
    mf_status st;

    if (!test && known)
        test = n->test;
    if (test)
        return open_named_test(job, args, test);
    MF_TRY(open_set(job, args, job->data_text, true, &o));
    if (known && !o.has_test && n->split > 0.0) {
        st = take_unseen(job, o.set);
        mf_dataset_unref(o.set);
        return st;
    }
    job->test = o.set;
    if (known && !o.has_test && !job->label_optional)
        return mf_args_wrong(args,
                             "the model was trained on all samples of '%.200s' (--no-test); give "
                             "--test DATA that it was not trained on",
                             job->data_text);
    return set_test_source(job, o.has_test ? "the test part of " : "", job->data_text, "");
}

mf_status mf_job_open_data(mf_job *job, mf_args *args, bool with_training)
{
    if (!job->data_text && (with_training || !mf_args_has(args, "test")))
        return mf_args_wrong(args, "--data is missing: the training data, e.g. fashion-mnist");
    return with_training ? open_training(job, args) : job_data_open_trained(job, args);
}

mf_status mf_job_split_validation(mf_job *job, mf_args *args)
{
    double fraction = 0.0;
    mf_dataset *rest;

    MF_TRY(mf_args_double(args, "validation", 0.0, 0.99, &fraction));
    if (fraction == 0.0)
        return MF_OK;
    MF_TRY(
        mf_dataset_split(job->train, 1.0 - fraction, job->compile.seed, &rest, &job->validation));
    mf_dataset_unref(job->train);
    job->train = rest;
    if (mf_dataset_count(job->validation) > 0 && mf_dataset_count(rest) > 0)
        return MF_OK;
    return mf_args_wrong(args, "--validation %s leaves no samples for %s",
                         mf_args_value(args, "validation"),
                         mf_dataset_count(rest) > 0 ? "the validation" : "the training");
}

/* ---- output ---- */

static int64_t job_data_count_of(const mf_dataset *set)
{
    return set ? mf_dataset_count(set) : 0;
}

void mf_job_print_samples(const mf_job *job, mf_buf *out)
{
    mf_buf_printf(out, ",\"samples\":{\"train\":%lld,\"validation\":%lld,\"test\":%lld}",
                  (long long)job_data_count_of(job->train),
                  (long long)job_data_count_of(job->validation),
                  (long long)job_data_count_of(job->test));
    if (!job->test_from)
        return;
    mf_buf_str(out, ",\"test_data\":");
    mf_buf_json(out, job->test_from, strlen(job->test_from));
}
