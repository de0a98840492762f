/* SPDX-License-Identifier: Apache-2.0 */
/* embeddings.c - thresholds and recall of embeddings. */
#include "report/embeddings.h"

#include "mf_test.h"

#include <string.h>

MF_TEST(embeddings_threshold_is_the_best_one_of_the_pairs)
{
    static const float apart[] = { 0.9f, 0.1f, 0.3f, 0.8f },
                       mixed[] = { 0.1f, 0.2f, 0.3f, 0.4f, 0.5f };
    static const int32_t same[] = { 0, 1, 1, 0 }, of_mixed[] = { 1, 0, 1, 0, 0 };
    double t;

    T_OK(mf_best_threshold(apart, same, 4, &t));
    T_NEAR(t, 0.55, 1e-6);
    T_NEAR(mf_verification(apart, same, 4, t), 1.0, 0);
    T_OK(mf_best_threshold(mixed, of_mixed, 5, &t));
    T_NEAR(mf_verification(mixed, of_mixed, 5, t), 0.8, 1e-12);
    T_NEAR(t, 0.15, 1e-6); /* 0.35 is as good */
    T_NEAR(mf_verification(mixed, of_mixed, 5, 0.45), 0.6, 1e-12);
    T_OK(mf_best_threshold(mixed, (const int32_t[]){ 0, 0, 0, 0, 0 }, 5, &t));
    T_NEAR(t, 0.0, 0);
    T_OK(mf_best_threshold(mixed, (const int32_t[]){ 1, 1, 1, 1, 1 }, 5, &t));
    T_TRUE(t > 0.5);
}

/* Pairs that are equally far are called alike. */
MF_TEST(embeddings_threshold_is_between_distances)
{
    static const float d[] = { 0.2f, 0.2f, 0.2f, 0.7f };
    static const int32_t same[] = { 1, 1, 0, 0 };
    double t;

    T_OK(mf_best_threshold(d, same, 4, &t));
    T_NEAR(t, 0.45, 1e-6);
    T_NEAR(mf_verification(d, same, 4, t), 0.75, 0);
}

MF_TEST(embeddings_recall_uses_the_nearest_other_sample)
{
    static const float rows[] = { 0, 0, 0, 1, 5, 5, 5, 6, 9, 0 };
    static const int32_t labels[] = { 1, 1, 2, 1, 2 };
    mf_tensor *t;
    double recall;

    T_OK(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ 5, 2 }, 2, &t));
    memcpy(mf_tensor_data(t), rows, sizeof rows);
    T_OK(mf_recall_at_1(t, labels, 2, &recall));
    T_NEAR(recall, 0.6, 1e-12); /* the first two have each other, the last the third */
    mf_tensor_free(t);
}
