/* SPDX-License-Identifier: Apache-2.0 */
/* ema.c - the moving average of the weights: its update, and evaluating with it. */
#include "train/step/ema.h"

#include "train/step/trainer.h"

#include <string.h>

static const char suffix[] = "/ExponentialMovingAverage";

/* average -= (average - weight) * (1 - decay), as TensorFlow writes it. */
void mf_ema_add(const mf_update *u, int64_t first)
{
    mf_updates *all = u->all;
    mf_graph *g = all->graph;
    const mf_output slot = mf_update_slot_like(u, suffix + 1, u->weight->initial);
    const mf_output weight = mf_update_read(u, u->weight->handle);
    const mf_output apart = mf_apply(g, "Sub", MF_IN(mf_update_read(u, slot), weight));

    for (int64_t i = first; weight.node && i < all->n_done; i++)
        mf_control(g, weight.node, all->done[i]);
    mf_update_apply(u, "ResourceApplyGradientDescent",
                    MF_IN(slot, mf_scalar(g, MF_DTYPE_F32, 1.0 - all->ema), apart), "");
}

/* The weight of this average; NULL: it is not an average. */
static mf_train_var *ema_weight_of(const mf_trainer *t, const mf_train_var *average)
{
    const size_t n = strlen(average->name), tail = sizeof suffix - 1;

    if (average->is_weight || n <= tail || strcmp(average->name + n - tail, suffix) != 0)
        return NULL;
    for (int64_t i = 0; i < t->n_trained; i++) {
        mf_train_var *w = &t->trained[i];

        if (w->is_weight && strlen(w->name) == n - tail &&
            strncmp(w->name, average->name, n - tail) == 0)
            return w;
    }
    return NULL;
}

/* Locked in address order, as updates do. */
static void ema_swap(mf_variable *a, mf_variable *b)
{
    mf_variable *first = a < b ? a : b, *second = a < b ? b : a;
    mf_tensor value;

    pthread_mutex_lock(&first->lock);
    pthread_mutex_lock(&second->lock);
    value = a->value;
    a->value = b->value;
    b->value = value;
    a->writes++;
    b->writes++;
    pthread_mutex_unlock(&second->lock);
    pthread_mutex_unlock(&first->lock);
}

void mf_ema_swap(mf_trainer *t)
{
    for (int64_t i = 0; i < t->n_trained; i++) {
        const mf_train_var *w = ema_weight_of(t, &t->trained[i]);

        if (w)
            ema_swap(w->variable, t->trained[i].variable);
    }
}

mf_status mf_ema_restart(mf_trainer *t, const mf_tensor *values)
{
    for (int64_t i = 0; i < t->n_trained; i++) {
        const mf_train_var *w = values[i].data ? NULL : ema_weight_of(t, &t->trained[i]);
        mf_tensor value = { 0 };
        mf_status st;

        if (!w)
            continue;
        MF_TRY(mf_variable_read(w->variable, &value));
        st = mf_variable_assign(t->trained[i].variable, &value, true);
        mf_tensor_clear(&value);
        MF_TRY(st);
    }
    return MF_OK;
}
