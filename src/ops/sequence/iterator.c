/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/sequence/iterator.h"

#include <stdio.h>
#include <string.h>

static void iterator_destroy(mf_object *o)
{
    mf_seq_iterator *it = (mf_seq_iterator *)o;

    mf_cursor_end(it->cursor);
    mf_walk_deinit(&it->walk);
    mf_free(it->types);
    mf_free(it->shapes);
    mf_free(it->text);
    pthread_mutex_destroy(&it->lock);
    mf_free(it);
}

const mf_object_type mf_seq_iterator_type = { .name = "iterator", .destroy = iterator_destroy };

/* "iterator:s:9:localhost:name": whose object, how long the container's name is, the two names. */
static mf_status write_text(mf_seq_iterator *it, const mf_seq_iterator_spec *spec)
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
    const mf_parts *parts = &spec->parts;
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
    st = copy_parts(it, spec);
    if (st == MF_OK)
        st = write_text(it, spec);
    if (st != MF_OK)
        mf_object_unref(&it->object);
    else
        *out = &it->object;
    return st;
}

/* ---- walking ---- */

mf_status mf_seq_iterator_start(mf_seq_iterator *it, const mf_step *step, mf_sequence *d)
{
    mf_walk walk = { .step = step }, old;
    mf_cursor *cursor, *before;
    mf_status st;

    MF_TRY(mf_parts_fit(mf_seq_iterator_parts(it), (mf_parts){ d->n_parts, d->types, d->shapes }));
    st = mf_cursor_begin(&walk, d, NULL, &cursor);
    if (st != MF_OK) {
        mf_walk_deinit(&walk);
        return st;
    }
    pthread_mutex_lock(&it->lock);
    old = it->walk;
    it->walk = walk;
    before = it->cursor;
    it->cursor = cursor;
    pthread_mutex_unlock(&it->lock);
    mf_cursor_end(before);
    mf_walk_deinit(&old);
    return MF_OK;
}

bool mf_seq_iterator_has_started(mf_seq_iterator *it)
{
    bool started;

    pthread_mutex_lock(&it->lock);
    started = it->cursor != NULL;
    pthread_mutex_unlock(&it->lock);
    return started;
}

mf_status mf_seq_iterator_next(mf_seq_iterator *it, const mf_step *step, mf_tensor *row, bool *end)
{
    mf_status st;

    pthread_mutex_lock(&it->lock);
    if (it->cursor) {
        it->walk.step = step;
        st = mf_cursor_next(it->cursor, &it->walk, row, end);
        it->walk.step = NULL;
    } else {
        st = MF_FAIL(MF_FAILED_PRECONDITION,
                     "GetNext() failed because the iterator has not been initialized. Ensure that "
                     "you have run the initializer operation for this iterator before getting the "
                     "next element.");
    }
    pthread_mutex_unlock(&it->lock);
    return st;
}
