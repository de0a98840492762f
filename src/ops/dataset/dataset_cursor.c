/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_cursor.c - iterates over datasets. See dataset_op.h. */
#include "base/clock.h"
#include "ops/dataset/dataset_op.h"

static mf_status dataset_cursor_begin(mf_cursor *c, mf_walk *w)
{
    const mf_dataset_op_kind *kind = c->set->kind;

    if (kind->on_input)
        MF_TRY(mf_cursor_begin(w, mf_dataset_op_arg(c->set, 0), c, &c->input));
    return kind->begin ? kind->begin(c, w) : MF_OK;
}

mf_status mf_cursor_begin(mf_walk *w, mf_dataset_op *d, const mf_cursor *parent, mf_cursor **out)
{
    mf_cursor *c;
    mf_status st;

    *out = NULL;
    if (parent && parent->depth >= MF_DATASET_OP_DEPTH)
        return MF_FAIL(MF_INVALID_ARGUMENT, "datasets are nested more than %d deep",
                       MF_DATASET_OP_DEPTH);
    c = mf_calloc(1, d->kind->cursor_bytes ? d->kind->cursor_bytes : sizeof *c);
    if (!c)
        return MF_NOMEM("an iterator");
    (void)mf_object_ref(&d->object);
    c->set = d;
    c->depth = parent ? parent->depth + 1 : 1;
    st = dataset_cursor_begin(c, w);
    if (st != MF_OK)
        mf_cursor_end(c);
    else
        *out = c;
    return st;
}

void mf_cursor_end(mf_cursor *c)
{
    if (!c)
        return;
    if (c->set->kind->end)
        c->set->kind->end(c);
    mf_cursor_end(c->input);
    mf_object_unref(&c->set->object);
    mf_free(c);
}

mf_status mf_cursor_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    mf_status st;

    *end = false;
    if (mf_cancel_is_raised(w->step->cancel))
        return MF_FAIL(MF_CANCELLED, "Operation was cancelled");
    if (w->step->deadline_ns && mf_clock_ns() >= w->step->deadline_ns)
        return MF_FAIL(MF_DEADLINE_EXCEEDED, "the run did not end in time");
    st = c->set->kind->next(c, w, row, end);
    if (st != MF_OK || *end)
        mf_row_clear(row, c->set->n_parts);
    return st;
}

/* ---- what data sets keep ---- */

static void drop_kept(struct mf_dataset_kept *k)
{
    mf_object_unref(k->state);
    mf_object_unref(&k->set->object);
}

/* Drops the state of datasets that have no other reference and will not be iterated again. */
static void dataset_cursor_sweep(mf_walk *w)
{
    int64_t n = 0;

    for (int64_t i = 0; i < w->n_kept; i++) {
        if (atomic_load(&w->kept[i].set->object.refs) == 1)
            drop_kept(&w->kept[i]);
        else
            w->kept[n++] = w->kept[i];
    }
    w->n_kept = n;
    w->sweep_at = 2 * n + 16;
}

mf_status mf_cursor_state(const mf_cursor *c, mf_walk *w, mf_object_make *make, mf_object **out)
{
    for (int64_t i = 0; i < w->n_kept; i++) {
        if (w->kept[i].set == c->set) {
            *out = w->kept[i].state;
            return MF_OK;
        }
    }
    if (w->n_kept >= w->sweep_at)
        dataset_cursor_sweep(w);
    MF_TRY(mf_grow(&w->kept, &w->cap_kept, w->n_kept + 1, sizeof *w->kept));
    MF_TRY(make(c->set, out));
    (void)mf_object_ref(&c->set->object);
    w->kept[w->n_kept++] = (struct mf_dataset_kept){ c->set, *out };
    return MF_OK;
}

void mf_walk_deinit(mf_walk *w)
{
    for (int64_t i = 0; i < w->n_kept; i++)
        drop_kept(&w->kept[i]);
    mf_free(w->kept);
    mf_function_calls_deinit(&w->calls);
    *w = (mf_walk){ 0 };
}

/* ---- functions ---- */

mf_status mf_cursor_call(const mf_cursor *c, mf_walk *w, const mf_tensor *element, int n_element,
                         const mf_dtype *types, int n_results, mf_tensor *results)
{
    const mf_dataset_op *d = c->set;
    const mf_call_args args = { .element = element,
                                .n_element = n_element,
                                .captured = d->args + d->captured,
                                .n_captured = d->n_captured };

    return mf_function_calls_run(&w->calls, d->function, w->step, &args, types, n_results, results);
}

mf_status mf_cursor_call_sequence(const mf_cursor *c, mf_walk *w, const mf_tensor *element,
                                  int n_element, mf_cursor **out)
{
    const mf_dtype variant = MF_DTYPE_VARIANT;
    mf_tensor result = { 0 };
    mf_dataset_op *d;
    mf_status st;

    *out = NULL;
    MF_TRY(mf_cursor_call(c, w, element, n_element, &variant, 1, &result));
    st = mf_dataset_op_of(&result, &d);
    if (st == MF_OK)
        st = mf_dataset_op_same_parts(c->set, d);
    if (st == MF_OK)
        st = mf_cursor_begin(w, d, c, out);
    mf_tensor_clear(&result);
    return st;
}

mf_status mf_cursor_call_test(const mf_cursor *c, mf_walk *w, const mf_tensor *element,
                              int n_element, bool *out)
{
    const mf_dtype boolean = MF_DTYPE_BOOL;
    mf_tensor result = { 0 };
    mf_status st = mf_cursor_call(c, w, element, n_element, &boolean, 1, &result);

    *out = st == MF_OK && result.count == 1 && *(const uint8_t *)result.data;
    if (st == MF_OK && result.count != 1)
        st = MF_FAIL(MF_INVALID_ARGUMENT,
                     "Filter predicate `f` must return a scalar bool."); /* TensorFlow's message */
    mf_tensor_clear(&result);
    return st;
}
