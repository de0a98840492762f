/* SPDX-License-Identifier: Apache-2.0 */
/* predictions.c - prints outputs of a model as text or JSON. */
#include "cli/predictions.h"

#include "cli/text.h"
#include "data/dataset.h"
#include "report/detections.h"
#include "tensor/tensor.h"

#include <limits.h>
#include <string.h>

typedef struct classes {
    int64_t n; /* 0: the outputs are numbers */
    const char *const *names; /* NULL: no names */
} classes;

/* The classes of the model if they are known, otherwise those of the data. */
static classes predictions_classes_of(const mf_job *job, int64_t width)
{
    const mf_schema_column *label = mf_schema_label(&job->note.schema);
    classes c = { .n = 0 };

    if (label)
        c = (classes){ label->classes, label->class_names };
    else
        c.n = mf_dataset_classes(job->test, &c.names);
    return width > 1 && c.n == width ? c : (classes){ 0, NULL };
}

static int64_t highest(const float *scores, int64_t n)
{
    int64_t best = 0;

    for (int64_t i = 1; i < n; i++)
        best = scores[i] > scores[best] ? i : best;
    return best;
}

static void print_line(const classes *c, const float *row, int64_t width, mf_buf *out)
{
    const int64_t best = highest(row, width);

    if (c->n > 0)
        mf_buf_printf(out, " %lld%s", (long long)best, c->names ? " " : "");
    if (c->n > 0 && c->names)
        mf_cli_put_name(out, c->names[best], INT_MAX);
    for (int64_t k = 0; c->n == 0 && k < width; k++)
        mf_buf_printf(out, " %.6g", (double)row[k]);
    mf_buf_str(out, "\n");
}

static void predictions_print_object(const classes *c, const float *row, int64_t width, mf_buf *out)
{
    const int64_t best = highest(row, width);

    if (c->n > 0)
        mf_buf_printf(out, ",\"class\":%lld", (long long)best);
    if (c->names) {
        mf_buf_str(out, ",\"name\":");
        mf_buf_json(out, c->names[best], strlen(c->names[best]));
    }
    mf_buf_str(out, c->n > 0 ? ",\"scores\":[" : ",\"values\":[");
    for (int64_t k = 0; k < width; k++) {
        mf_buf_str(out, k > 0 ? "," : "");
        mf_buf_json_number(out, (double)row[k]);
    }
    mf_buf_str(out, "]}");
}

/* The number of the sample, and its file if each sample has one. */
static void predictions_print_sample(const mf_job *job, int64_t i, mf_buf *out)
{
    const mf_dataset *set = job->test;

    mf_buf_printf(out, "%s{\"sample\":%lld", i > 0 ? "," : "",
                  (long long)mf_dataset_sample_id(set, i));
    if (set->files && set->n_files == set->id_count) {
        const char *file = set->files[mf_dataset_file(set, i)];

        mf_buf_str(out, ",\"file\":");
        mf_buf_json(out, file, strlen(file));
    }
}

mf_status mf_predictions_print(const mf_job *job, const mf_tensor *answers, bool json)
{
    const int64_t n = mf_tensor_dim(answers, 0), width = n > 0 ? mf_tensor_count(answers) / n : 0;
    const classes c = predictions_classes_of(job, width);
    const float *row = mf_tensor_data(answers);
    mf_buf out = { 0 };

    if (mf_detections_are(job->model, answers)) {
        mf_detections_print(job->test, answers, json, &out);
        return mf_cli_print(&out);
    }
    if (mf_tensor_dtype(answers) != MF_DTYPE_F32)
        return MF_FAIL(MF_UNIMPLEMENTED, "the output of the model is not of type float; use "
                                         "--output");
    mf_buf_str(&out, json ? "{\"predictions\":[" : "");
    for (int64_t i = 0; i < n; i++, row += width) {
        if (json) {
            predictions_print_sample(job, i, &out);
            predictions_print_object(&c, row, width, &out);
        } else {
            mf_buf_printf(&out, "%lld", (long long)mf_dataset_sample_id(job->test, i));
            print_line(&c, row, width, &out);
        }
    }
    mf_buf_str(&out, json ? "]}\n" : "");
    return mf_cli_print(&out);
}
