/* SPDX-License-Identifier: Apache-2.0 */
/* model_run.h - running parts of a model in tests. Failures end the test. */
#ifndef MODEL_RUN_H
#define MODEL_RUN_H

#include "models/model.h"

#include <meshflow/session.h>

/* A session whose variables have their first values, for this seed. */
mf_session *t_model_start(mf_model *m, int64_t seed);
/* The value of y, where the model's inputs have these values (n_inputs of them, in their order).
 * Owns: the caller frees it with mf_tensor_free(). */
mf_tensor *t_model_fetch(mf_session *s, const mf_model *m, mf_output y, mf_tensor *const *inputs);
/* y in training: of all shards together, with the seed 1 at this step. Before t_model_start(). */
mf_output t_model_training(mf_model *m, mf_output y, int shards);
/* A tensor of floats; values NULL: the numbers 0, 1, 2 ... times `scale`. */
mf_tensor *t_floats(const int64_t *dims, int rank, const float *values, float scale);
mf_tensor *t_ints(const int64_t *dims, int rank, const int32_t *values);

#define T_DIMS(...)                                                                                \
    (const int64_t[]){ __VA_ARGS__ }, (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))

static inline float t_at(const mf_tensor *t, int64_t i)
{
    return ((const float *)mf_tensor_data(t))[i];
}

#endif
