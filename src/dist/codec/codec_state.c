/* SPDX-License-Identifier: Apache-2.0 */
/* codec_state.c - the state of codecs: creating it, reading it from a checkpoint, gathering it for
 * a checkpoint.
 *
 *     _meshflow/codec/kept/NAME     [grains, floats of each]    each grain's own
 *     _meshflow/codec/shared/NAME   [floats]                    the same on all workers */
#include "base/buf.h"
#include "base/mem.h"
#include "dist/codec/codec_bucket.h"

#include <string.h>

static const char kept_prefix[] = MF_AUX_STATE_PREFIX "kept/";
static const char shared_prefix[] = MF_AUX_STATE_PREFIX "shared/";

/* Complete ones; the last grain of a batch may have fewer shards. */
static int64_t grains_of(const mf_shard_owners *s, int64_t shards)
{
    return (shards + s->grain - 1) / s->grain;
}

/* ---- making ---- */

static mf_status find_before(const mf_aux_state_list *before, const char *prefix, const char *name,
                             const mf_shape *shape, const mf_tensor **out)
{
    mf_buf full = { 0 };
    const mf_aux_state *k;
    char have[MF_SHAPE_TEXT], want[MF_SHAPE_TEXT];

    *out = NULL;
    mf_buf_printf(&full, "%s%s", prefix, name);
    k = full.data ? mf_aux_state_find(before, full.data) : NULL;
    mf_buf_deinit(&full);
    if (!k)
        return MF_OK;
    if (k->value.dtype != MF_DTYPE_F32 || !mf_shape_equal(&k->value.shape, shape))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "the checkpoint was made with another codec: of '%s' it has %s, now the "
                       "codec has %s; use the same codec and grain, or begin in another folder",
                       name, mf_shape_text(&k->value.shape, have), mf_shape_text(shape, want));
    *out = &k->value;
    return MF_OK;
}

static mf_status start_memory(mf_codec_bucket_item *t, const mf_shard_owners *s, int rank,
                              const mf_aux_state_list *before)
{
    const int64_t all = grains_of(s, s->shards);
    const int64_t ours = grains_of(s, s->of[rank].n);
    const mf_tensor *was;

    t->memory = mf_calloc(ours * t->kept, sizeof *t->memory);
    if (!t->memory)
        return MF_NOMEM("codec state");
    MF_TRY(find_before(before, kept_prefix, t->name, &MF_SHAPE(all, t->kept), &was));
    if (was && ours > 0)
        memcpy(t->memory, (const float *)was->data + s->of[rank].first / s->grain * t->kept,
               (size_t)(ours * t->kept) * sizeof *t->memory);
    return MF_OK;
}

static mf_status start_shared(mf_codec_bucket_item *t, const mf_aux_state_list *before)
{
    const mf_tensor *was;

    t->shared = mf_calloc(t->n_shared, sizeof *t->shared);
    if (!t->shared)
        return MF_NOMEM("codec state");
    MF_TRY(find_before(before, shared_prefix, t->name, &MF_SHAPE(t->n_shared), &was));
    if (was)
        memcpy(t->shared, was->data, (size_t)t->n_shared * sizeof *t->shared);
    else
        t->codec->kind->rounds->start(t->codec, &t->about, t->shared);
    return MF_OK;
}

mf_status mf_codec_bucket_add(mf_codec_bucket *c, const mf_shard_owners *s, int rank,
                              const char *name, const mf_codec *codec, const mf_codec_item *item,
                              int64_t at, const mf_aux_state_list *before)
{
    mf_codec_bucket_item *t;

    MF_TRY(mf_grow(&c->items, &c->cap, c->n + 1, sizeof *c->items));
    t = &c->items[c->n++];
    *t =
        (mf_codec_bucket_item){ .name = mf_strdup(name), .codec = codec, .about = *item, .at = at };
    if (!t->name)
        return MF_NOMEM("an item");
    if (codec->kind->memory)
        t->kept = codec->kind->memory(codec, item);
    if (codec->kind->rounds)
        t->n_shared = codec->kind->rounds->shared(codec, item);
    if (t->kept > 0)
        MF_TRY(start_memory(t, s, rank, before));
    if (t->n_shared > 0)
        MF_TRY(start_shared(t, before));
    return MF_OK;
}

/* ---- gathering ---- */

static mf_status codec_state_add_kept(mf_aux_state_list *out, const char *prefix, const char *name,
                                      mf_tensor *value)
{
    mf_buf full = { 0 };
    mf_status st;

    mf_buf_printf(&full, "%s%s", prefix, name);
    st = mf_buf_finish(&full);
    if (st == MF_OK)
        st = mf_aux_state_add(out, full.data, value);
    mf_buf_deinit(&full);
    mf_tensor_clear(value);
    return st;
}

/* The first member gets all state, the others none. Shards are in the order of ranks. */
static mf_status collect_memory(const mf_codec_bucket_item *t, const mf_shard_owners *s,
                                mf_group *g, const mf_collective *call, int64_t *sizes,
                                mf_aux_state_list *out)
{
    const mf_shape shape = MF_SHAPE(grains_of(s, s->shards), t->kept);
    mf_tensor all = { 0 };
    char nothing; /* the other members receive nothing */
    mf_status st;

    for (int r = 0; r < g->size; r++)
        sizes[r * g->size] = grains_of(s, s->of[r].n) * t->kept * (int64_t)sizeof *t->memory;
    if (g->rank == 0)
        MF_TRY(mf_tensor_alloc(&all, MF_DTYPE_F32, &shape));
    st = mf_all_to_all(g, call, t->memory, sizes, g->rank == 0 ? all.data : &nothing);
    if (st == MF_OK && g->rank == 0)
        st = codec_state_add_kept(out, kept_prefix, t->name, &all);
    mf_tensor_clear(&all);
    return st;
}

static mf_status collect_shared(const mf_codec_bucket_item *t, mf_aux_state_list *out)
{
    mf_tensor value = { 0 };

    MF_TRY(mf_tensor_alloc(&value, MF_DTYPE_F32, &MF_SHAPE(t->n_shared)));
    memcpy(value.data, t->shared, (size_t)t->n_shared * sizeof *t->shared);
    return codec_state_add_kept(out, shared_prefix, t->name, &value);
}

mf_status mf_codec_bucket_collect(const mf_codec_bucket *c, const mf_shard_owners *s, mf_group *g,
                                  const mf_collective *call, mf_aux_state_list *out)
{
    int64_t *sizes = mf_calloc((int64_t)g->size * g->size, sizeof *sizes);
    mf_status st = sizes ? MF_OK : MF_NOMEM("codec state");

    for (int64_t i = 0; st == MF_OK && i < c->n; i++) {
        const mf_codec_bucket_item *t = &c->items[i];

        if (t->kept > 0)
            st = collect_memory(t, s, g, call, sizes, out);
        if (st == MF_OK && t->n_shared > 0 && g->rank == 0)
            st = collect_shared(t, out);
    }
    mf_free(sizes);
    return st;
}
