/* SPDX-License-Identifier: Apache-2.0 */
/* ps_replica_table.c - the replicas of parameter-server state that a task holds: put, find, list,
 * choose a complete generation. */
#include "dist/param_server/ps_replica_table.h"

#include "base/mem.h"

#include <string.h>

enum { STEPS = 2 }; /* of each slice: servers may be one step apart when one of them dies */

struct mf_ps_kept {
    mf_ps_copy_of about;
    mf_buffer *bytes;
    size_t size; /* of them */
    const mf_ps_area_step *of; /* the step, instead of that in `about`; NULL: the bytes do not
                                  change */
};

/* What it contains now; false: nothing. */
static bool is_complete(const struct mf_ps_kept *k, mf_ps_copy_of *about)
{
    *about = k->about;
    if (k->of)
        about->step = atomic_load_explicit(&k->of->step, memory_order_acquire);
    return about->step != MF_PS_NO_COPY;
}

static void ps_replica_table_drop(mf_ps_replica_table *c, int64_t i)
{
    mf_buffer_unref(c->kept[i].bytes);
    c->kept[i] = c->kept[--c->n];
}

static bool is_same_slice(const mf_ps_copy_of *a, const mf_ps_copy_of *b)
{
    return a->generation == b->generation && a->slice == b->slice;
}

mf_status mf_ps_replica_table_put(mf_ps_replica_table *c, const mf_ps_copy_of *about,
                                  mf_buffer *bytes, size_t size)
{
    for (int64_t i = c->n - 1; i >= 0; i--) {
        const mf_ps_copy_of *k = &c->kept[i].about;

        if (!c->kept[i].of && is_same_slice(k, about) &&
            (k->step <= about->step - STEPS || k->step >= about->step))
            ps_replica_table_drop(c, i);
    }
    MF_TRY(mf_grow(&c->kept, &c->cap, c->n + 1, sizeof *c->kept));
    c->kept[c->n++] = (struct mf_ps_kept){ *about, mf_buffer_ref(bytes), size, NULL };
    return MF_OK;
}

mf_status mf_ps_replica_table_watch(mf_ps_replica_table *c, const mf_ps_copy_of *about,
                                    const mf_ps_area_step *of, mf_buffer *bytes, size_t size)
{
    MF_TRY(mf_grow(&c->kept, &c->cap, c->n + 1, sizeof *c->kept));
    c->kept[c->n++] = (struct mf_ps_kept){ *about, mf_buffer_ref(bytes), size, of };
    return MF_OK;
}

int64_t mf_ps_replica_table_last(const mf_ps_replica_table *c, int64_t generation, int64_t slice)
{
    int64_t last = MF_PS_NO_COPY;

    for (int64_t i = 0; i < c->n; i++) {
        mf_ps_copy_of about;

        if (is_complete(&c->kept[i], &about) && about.generation == generation &&
            about.slice == slice && about.step > last)
            last = about.step;
    }
    return last;
}

const void *mf_ps_replica_table_find(const mf_ps_replica_table *c, const mf_ps_copy_of *about,
                                     size_t *size)
{
    for (int64_t i = 0; i < c->n; i++) {
        mf_ps_copy_of here;

        if (!is_complete(&c->kept[i], &here) || memcmp(&here, about, sizeof here) != 0)
            continue;
        *size = c->kept[i].size;
        return c->kept[i].bytes->data;
    }
    return NULL;
}

void mf_ps_replica_table_forget_before(mf_ps_replica_table *c, int64_t generation)
{
    for (int64_t i = c->n - 1; i >= 0; i--) {
        if (c->kept[i].about.generation < generation)
            ps_replica_table_drop(c, i);
    }
}

void mf_ps_replica_table_list(const mf_ps_replica_table *c, mf_buf *out)
{
    for (int64_t i = 0; i < c->n; i++) {
        mf_ps_copy_of about;

        if (is_complete(&c->kept[i], &about))
            mf_buf_bytes(out, &about, sizeof about);
    }
}

void mf_ps_replica_table_deinit(mf_ps_replica_table *c)
{
    while (c->n > 0)
        ps_replica_table_drop(c, c->n - 1);
    mf_free(c->kept);
    *c = (mf_ps_replica_table){ 0 };
}

static bool has_slice(const mf_ps_copy_of *all, int64_t n, const mf_ps_copy_of *like, int64_t slice)
{
    for (int64_t i = 0; i < n; i++) {
        if (all[i].generation == like->generation && all[i].slices == like->slices &&
            all[i].step == like->step && all[i].slice == slice)
            return true;
    }
    return false;
}

int64_t mf_ps_replica_table_choose(const mf_ps_copy_of *all, int64_t n, int64_t step,
                                   int64_t *slices)
{
    int64_t best = -1;

    for (int64_t i = 0; i < n; i++) {
        int64_t slice = 0;

        if (all[i].step != step || all[i].generation <= best || all[i].slices > n)
            continue;
        while (slice < all[i].slices && has_slice(all, n, &all[i], slice))
            slice++;
        if (slice == 0 || slice < all[i].slices)
            continue;
        best = all[i].generation;
        *slices = all[i].slices;
    }
    return best;
}
