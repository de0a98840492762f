/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_iterator.c - the server-side iterator object over a tf.data dataset. */
#include "ops/dataset/dataset_iterator.h"

#include "base/clock.h"
#include "base/cond.h"

#include <stdio.h>
#include <string.h>

static void end_walk(mf_seq_iterator *it)
{
    mf_cursor_end(it->cursor);
    it->cursor = NULL;
    mf_walk_deinit(&it->walk);
}

static void iterator_destroy(mf_object *o)
{
    mf_seq_iterator *it = (mf_seq_iterator *)o;

    end_walk(it);
    mf_free(it->types);
    mf_free(it->shapes);
    mf_free(it->text);
    pthread_cond_destroy(&it->idle);
    pthread_mutex_destroy(&it->lock);
    mf_free(it);
}

const mf_object_type mf_seq_iterator_type = { .name = "iterator", .destroy = iterator_destroy };

/* "iterator:s:9:localhost:name": owner of the object, length of the container's name, both names.
 */
static mf_status dataset_iterator_write_text(mf_seq_iterator *it, const mf_seq_iterator_spec *spec)
{
    mf_buf b = { 0 };

    if (!spec->name)
        return MF_OK;
    mf_buf_printf(&b, "iterator:%c:%zu:%s:%s", spec->is_private ? 's' : 'r',
                  strlen(spec->container), spec->container, spec->name);
    it->text = b.failed ? NULL : b.data;
    if (!it->text)
        mf_buf_deinit(&b);
    return it->text ? MF_OK : MF_NOMEM("an iterator");
}

static mf_status copy_parts(mf_seq_iterator *it, const mf_seq_iterator_spec *spec)
{
    const mf_element_spec *parts = &spec->parts;
    const int n = parts->n;

    it->n_parts = n;
    it->types = mf_calloc(n + 1, sizeof *it->types);
    it->shapes = parts->shapes ? mf_calloc(n + 1, sizeof *it->shapes) : NULL;
    if (!it->types || (parts->shapes && !it->shapes))
        return MF_NOMEM("an iterator");
    memcpy(it->types, parts->types, (size_t)n * sizeof *it->types);
    if (parts->shapes)
        memcpy(it->shapes, parts->shapes, (size_t)n * sizeof *it->shapes);
    return MF_OK;
}

mf_status mf_seq_iterator_make(void *spec, mf_object **out)
{
    mf_seq_iterator *it = mf_calloc(1, sizeof *it);
    mf_status st;

    *out = NULL;
    if (!it)
        return MF_NOMEM("an iterator");
    it->object.type = &mf_seq_iterator_type;
    atomic_store(&it->object.refs, 1);
    pthread_mutex_init(&it->lock, NULL);
    mf_cond_init(&it->idle);
    st = copy_parts(it, spec);
    if (st == MF_OK)
        st = dataset_iterator_write_text(it, spec);
    if (st != MF_OK)
        mf_object_unref(&it->object);
    else
        *out = &it->object;
    return st;
}

/* ---- walking ---- */

enum { LOOK_NS = 50000000 }; /* interval at which waiters check whether their step has ended */

/* The caller holds the lock. */
static mf_status wait_idle(mf_seq_iterator *it, const mf_step *step)
{
    while (it->busy) {
        if (pthread_equal(it->owner, pthread_self()))
            return MF_FAIL(
                MF_FAILED_PRECONDITION,
                "a function of the iterator's data set requests an element of the same iterator");
        if (mf_cancel_is_raised(step->cancel))
            return MF_FAIL(MF_CANCELLED, "Operation was cancelled");
        if (step->deadline_ns && mf_clock_ns() >= step->deadline_ns)
            return MF_FAIL(MF_DEADLINE_EXCEEDED, "the run did not end in time");
        (void)mf_cond_wait_until(&it->idle, &it->lock, mf_clock_ns() + LOOK_NS);
    }
    return MF_OK;
}

static mf_status dataset_iterator_enter(mf_seq_iterator *it, const mf_step *step)
{
    mf_status st;

    pthread_mutex_lock(&it->lock);
    st = wait_idle(it, step);
    if (st == MF_OK) {
        it->busy = true;
        it->owner = pthread_self();
        it->walk.step = step;
    }
    pthread_mutex_unlock(&it->lock);
    return st;
}

static void dataset_iterator_leave(mf_seq_iterator *it)
{
    pthread_mutex_lock(&it->lock);
    it->busy = false;
    it->walk.step = NULL;
    pthread_cond_signal(&it->idle);
    pthread_mutex_unlock(&it->lock);
}

mf_status mf_seq_iterator_start(mf_seq_iterator *it, const mf_step *step, mf_dataset_op *d,
                                bool once)
{
    mf_walk walk = { .step = step };
    mf_cursor *cursor = NULL;
    mf_status st;

    MF_TRY(mf_element_spec_fit(mf_seq_iterator_parts(it),
                               (mf_element_spec){ d->n_parts, d->types, d->shapes }));
    MF_TRY(dataset_iterator_enter(it, step));
    st = once && it->cursor ? MF_OK : mf_cursor_begin(&walk, d, NULL, &cursor);
    if (cursor) {
        end_walk(it);
        it->walk = walk;
        it->cursor = cursor;
    } else {
        mf_walk_deinit(&walk);
    }
    dataset_iterator_leave(it);
    return st;
}

mf_status mf_seq_iterator_has_started(mf_seq_iterator *it, const mf_step *step, bool *out)
{
    *out = false;
    MF_TRY(dataset_iterator_enter(it, step));
    *out = it->cursor != NULL;
    dataset_iterator_leave(it);
    return MF_OK;
}

mf_status mf_seq_iterator_next(mf_seq_iterator *it, const mf_step *step, mf_tensor *row, bool *end)
{
    mf_status st;

    MF_TRY(dataset_iterator_enter(it, step));
    st = it->cursor
             ? mf_cursor_next(it->cursor, &it->walk, row, end)
             : MF_FAIL(MF_FAILED_PRECONDITION,
                       "GetNext() failed because the iterator has not been initialized. Ensure "
                       "that you have run the initializer operation for this iterator before "
                       "getting the next element.");
    dataset_iterator_leave(it);
    return st;
}
