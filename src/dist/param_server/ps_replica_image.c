/* SPDX-License-Identifier: Apache-2.0 */
/* ps_replica_image.c - the contents of a copy of a parameter server.
 *
 * Of a synchronous server these are the optimizer's slots: after each step all workers have the
 * weights, and know the step. Of an asynchronous server it is everything, because only the server
 * knows which pushes are in its weights: slice and slots, the set of completed batches, counters,
 * and leases. */
#include "dist/param_server/ps_server.h"

#include <string.h>

typedef struct image_head {
    int64_t start, version, batches, repeated, late, late_batches, stop;
} image_head;

static mf_status write_head(const server *s, mf_buf *out)
{
    const image_head h = { s->start, s->version,      s->batches, s->repeated,
                           s->late,  s->late_batches, s->stop };

    mf_buf_bytes(out, &h, sizeof h);
    mf_ps_dedup_write(&s->done, out);
    mf_ps_leases_write(s->leases, out);
    return mf_buf_finish(out);
}

mf_status mf_ps_image_size(const server *s, size_t *out)
{
    mf_buf head = { 0 };
    mf_status st;

    if (s->o.mode.sync)
        return mf_ps_store_size(&s->store, true, out);
    st = write_head(s, &head);
    if (st == MF_OK)
        st = mf_ps_store_size(&s->store, false, out);
    *out += sizeof(int64_t) + head.len;
    mf_buf_deinit(&head);
    return st;
}

/* The size of the head varies, so it is last: variables stay where they are. */
mf_status mf_ps_image_write(const server *s, int64_t changes, mf_ps_out *out)
{
    mf_buf head = { 0 };
    size_t size;
    int64_t bytes;
    mf_status st;

    if (s->o.mode.sync)
        return mf_ps_store_rewrite(&s->store, true, changes, out);
    MF_TRY(mf_ps_store_size(&s->store, false, &size));
    bytes = (int64_t)size;
    mf_ps_out_put(out, &bytes, sizeof bytes);
    MF_TRY(mf_ps_store_rewrite(&s->store, false, changes, out));
    st = write_head(s, &head);
    if (st == MF_OK)
        mf_ps_out_put(out, head.data, head.len);
    mf_buf_deinit(&head);
    return st;
}

mf_status mf_ps_image_read(server *s, mf_ps_reader *in)
{
    const void *size = mf_ps_reader_take(in, 1, sizeof(int64_t)), *from = NULL;
    int64_t bytes = 0;
    mf_ps_reader variables = { 0 };
    image_head h;

    if (size) {
        memcpy(&bytes, size, sizeof bytes);
        variables.at = mf_ps_reader_take(in, bytes, 1);
        variables.left = variables.at ? (size_t)bytes : 0;
        from = mf_ps_reader_take(in, 1, sizeof(image_head));
    }
    if (!from)
        return MF_FAIL(MF_DATA_LOSS, "a copy of a parameter server is cut short");
    memcpy(&h, from, sizeof h);
    MF_TRY(mf_ps_dedup_read(&s->done, in));
    MF_TRY(mf_ps_leases_read(s->leases, in));
    MF_TRY(mf_ps_store_read(&s->store, &variables));
    s->start = h.start;
    s->version = h.version;
    s->batches = h.batches;
    s->repeated = h.repeated;
    s->late = h.late;
    s->late_batches = h.late_batches;
    s->stop = h.stop != 0;
    return MF_OK;
}
