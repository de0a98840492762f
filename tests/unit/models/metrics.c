/* SPDX-License-Identifier: Apache-2.0 */
/* metrics.c - metrics and losses on known outputs. */
#include "models/metrics.h"

#include "mf_test.h"
#include "unit/models/model_run.h"

#include <math.h>

/* The metric of these outputs, [n,classes] (0: [n]), and labels [n]. */
static double metric(const char *text, const float *output, int64_t n, int64_t classes,
                     const int32_t *label)
{
    const mf_metric_kind *kind;
    mf_tensor *in[2], *sums;
    mf_model *m;
    mf_output y;
    double value;

    T_OK(mf_model_new(&m));
    y = mf_model_input(m, "output", MF_DTYPE_F32, &classes, classes > 0);
    y = mf_metric(m, text, y, mf_model_input(m, "label", MF_DTYPE_I32, NULL, 0), &kind);
    T_OK(mf_model_status(m));
    mf_session *s = t_model_start(m, 1);
    in[0] = t_floats((int64_t[]){ n, classes }, classes > 0 ? 2 : 1, output, 0);
    in[1] = t_ints(&n, 1, label);
    sums = t_model_fetch(s, m, y, in);
    value = kind->value(mf_tensor_data(sums), mf_tensor_count(sums), n);
    mf_tensor_free(sums);
    mf_tensor_free(in[0]);
    mf_tensor_free(in[1]);
    mf_session_free(s);
    mf_model_free(m);
    return value;
}

/* Right: rows 0, 1 and 3; the label of row 2 comes third. */
static const float SCORES[] = { 3, 1, 0, 0, 2, 1, 5, 4, 3, 0, 0, 1 };
static const int32_t CLASSES[] = { 0, 1, 2, 2 };

MF_TEST(models_metrics_of_classes)
{
    T_NEAR(metric("accuracy", SCORES, 4, 3, CLASSES), 0.75, 1e-6);
    T_NEAR(metric("top_k k=1", SCORES, 4, 3, CLASSES), 0.75, 1e-6);
    T_NEAR(metric("top_k k=2", SCORES, 4, 3, CLASSES), 0.75, 1e-6);
    T_NEAR(metric("top_k k=3", SCORES, 4, 3, CLASSES), 1.0, 1e-6);
    /* class 0: precision 1/2; class 2: recall 1/2 */
    T_NEAR(metric("precision", SCORES, 4, 3, CLASSES), (0.5 + 1 + 1) / 3, 1e-6);
    T_NEAR(metric("recall", SCORES, 4, 3, CLASSES), (1 + 1 + 0.5) / 3, 1e-6);
    T_NEAR(metric("f1", SCORES, 4, 3, CLASSES), (2.0 / 3 + 1 + 2.0 / 3) / 3, 1e-6);
}

MF_TEST(models_metrics_perplexity_of_equal_scores_is_the_number_of_classes)
{
    static const float zeros[12];

    T_NEAR(metric("perplexity", zeros, 4, 3, CLASSES), 3.0, 1e-5);
}

static const float LOGITS[] = { 2, -1, 0.5F, -2, 1, -0.5F };
static const int32_t TRUTH[] = { 1, 0, 0, 0, 1, 1 };

MF_TEST(models_metrics_of_binary_labels)
{
    for (int64_t columns = 0; columns < 2; columns++) {
        T_NEAR(metric("accuracy", LOGITS, 6, columns, TRUTH), 4.0 / 6, 1e-6);
        T_NEAR(metric("precision", LOGITS, 6, columns, TRUTH), 2.0 / 3, 1e-6);
        T_NEAR(metric("recall", LOGITS, 6, columns, TRUTH), 2.0 / 3, 1e-6);
        T_NEAR(metric("f1", LOGITS, 6, columns, TRUTH), 2.0 / 3, 1e-6);
        /* of nine pairs of a positive and a negative, one is in the wrong order */
        T_NEAR(metric("auc", LOGITS, 6, columns, TRUTH), 8.0 / 9, 1e-6);
    }
    T_NEAR(metric("mean_absolute_error", LOGITS, 6, 1, TRUTH), 1.0, 1e-6);
    T_NEAR(metric("mean_squared_error", LOGITS, 6, 0, TRUTH), (1 + 1 + 0.25 + 4 + 0 + 2.25) / 6,
           1e-6);
}

MF_TEST(models_metrics_of_distances_and_errors)
{
    static const float distances[] = { 0.1f, 0.6f, 0.3f, 0.9f };
    static const int32_t same[] = { 1, 1, 0, 0 };

    for (int64_t columns = 0; columns < 2; columns++) {
        T_NEAR(metric("verification", distances, 4, columns, same), 0.5, 1e-6);
        T_NEAR(metric("verification threshold=0.7", distances, 4, columns, same), 0.75, 1e-6);
    }
    T_NEAR(metric("reconstruction_error", distances, 4, 0, same), 0.475, 1e-6);
}

MF_TEST(models_metrics_and_losses_reject_invalid_outputs)
{
    const mf_metric_kind *kind;
    mf_model *m;
    mf_output x, label;

    for (int i = 0; i < 5; i++) {
        T_OK(mf_model_new(&m));
        x = mf_model_input(m, "x", MF_DTYPE_F32, T_DIMS(5));
        label = mf_model_input(m, "label", MF_DTYPE_I32, NULL, 0);
        if (i == 0) {
            (void)mf_metric(m, "auc", x, label, &kind);
            T_FAILS(MF_INVALID_ARGUMENT, "one score per sample", mf_model_status(m));
        } else if (i == 1) {
            (void)mf_metric(m, "acuracy", x, label, &kind);
            T_FAILS(MF_NOT_FOUND, "did you mean 'accuracy'", mf_model_status(m));
        } else if (i == 2) {
            (void)mf_loss(m, "mean_squared_error", x, label);
            T_FAILS(MF_INVALID_ARGUMENT, "[?] does not fit an output of shape [?,5]",
                    mf_model_status(m));
        } else if (i == 3) {
            (void)mf_loss(m, "hubert", x, label);
            T_FAILS(MF_NOT_FOUND, "did you mean 'huber'", mf_model_status(m));
        } else {
            (void)mf_loss(m, "sparse_categorical_crossentropy", x, x);
            T_FAILS(MF_INVALID_ARGUMENT, "a class number for each row", mf_model_status(m));
        }
        mf_model_free(m);
    }
}
