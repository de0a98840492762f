/* SPDX-License-Identifier: Apache-2.0 */
/* store_state_codec.c - the state of a store as bytes:
 *
 *     0   8  "mfstore1"
 *     8   4  CRC-32C of the rest, little-endian
 *    12   .  meshflow.StoreState (proto/store.proto) */
#include "base/mem.h"
#include "cluster/store/store_state.h"
#include "formats/crc32c.h"
#include "proto/store.pb-c.h"
#include "proto/wire.h"

#include <string.h>

static const char MAGIC[] = "mfstore1";
enum { MAGIC_BYTES = 8, HEAD_BYTES = 12 };

/* ---- writing ---- */

static mf_status fill_entries(const mf_store_state *s, mf_arena *arena, Meshflow__StoreState *m)
{
    const int n = s->all.n;
    Meshflow__StoreEntry *e = MF_ARENA_ARRAY(arena, Meshflow__StoreEntry, n);

    m->entries = MF_ARENA_ARRAY(arena, Meshflow__StoreEntry *, n);
    if (n > 0 && (!e || !m->entries))
        return MF_NOMEM("a store");
    for (int i = 0; i < n; i++) {
        const mf_store_entry *from = &s->all.entries[i];

        meshflow__store_entry__init(&e[i]);
        e[i].key = from->key;
        e[i].value = (ProtobufCBinaryData){ from->size, (uint8_t *)from->value };
        e[i].version = from->version;
        e[i].lease = from->lease;
        m->entries[i] = &e[i];
    }
    m->n_entries = (size_t)n;
    return MF_OK;
}

static mf_status fill_removed(const mf_store_state *s, mf_arena *arena, Meshflow__StoreState *m)
{
    const int n = s->n_removed;
    Meshflow__StoreRemoval *r = MF_ARENA_ARRAY(arena, Meshflow__StoreRemoval, n);

    m->removed = MF_ARENA_ARRAY(arena, Meshflow__StoreRemoval *, n);
    if (n > 0 && (!r || !m->removed))
        return MF_NOMEM("a store");
    for (int i = 0; i < n; i++) {
        meshflow__store_removal__init(&r[i]);
        r[i].key = (char *)(uintptr_t)s->removed[i].key; /* protobuf-c only reads it */
        r[i].revision = s->removed[i].revision;
        m->removed[i] = &r[i];
    }
    m->n_removed = (size_t)n;
    return MF_OK;
}

mf_status mf_store_state_encode(const mf_store_state *s, mf_buf *out)
{
    static const unsigned char later[HEAD_BYTES - MAGIC_BYTES];
    Meshflow__StoreState m = MESHFLOW__STORE_STATE__INIT;
    const size_t begin = out->len;
    mf_arena *arena = mf_arena_new();
    mf_status st = arena ? MF_OK : MF_NOMEM("a store");

    m.revision = s->all.revision;
    m.forgotten = s->forgotten;
    mf_buf_bytes(out, MAGIC, MAGIC_BYTES);
    mf_buf_bytes(out, later, sizeof later);
    if (st == MF_OK)
        st = fill_entries(s, arena, &m);
    if (st == MF_OK)
        st = fill_removed(s, arena, &m);
    if (st == MF_OK)
        st = mf_wire_encode(&m.base, out);
    mf_arena_free(arena);
    if (st == MF_OK)
        st = mf_buf_finish(out);
    if (st == MF_OK) {
        const size_t from = begin + HEAD_BYTES;
        const uint32_t crc = mf_crc32c(0, out->data + from, out->len - from);

        for (int i = 0; i < 4; i++)
            out->data[begin + MAGIC_BYTES + (size_t)i] = (char)(unsigned char)(crc >> (8 * i));
    }
    return st;
}

/* ---- reading ---- */

static mf_status check_head(const unsigned char *bytes, size_t len)
{
    uint32_t crc = 0;

    if (len < HEAD_BYTES || memcmp(bytes, MAGIC, MAGIC_BYTES) != 0)
        return MF_FAIL(MF_DATA_LOSS, "this is no state of a store");
    if (len > HEAD_BYTES + (size_t)MF_STORE_STATE_MAX)
        return MF_FAIL(MF_DATA_LOSS, "%zu bytes are too many for a store", len);
    for (int i = 0; i < 4; i++)
        crc |= (uint32_t)bytes[MAGIC_BYTES + i] << (8 * i);
    if (crc != mf_crc32c(0, bytes + HEAD_BYTES, len - HEAD_BYTES))
        return MF_FAIL(MF_DATA_LOSS, "the state of the store is damaged: its checksum differs");
    return MF_OK;
}

/* Entries are sorted by key. */
static mf_status take_entries(const Meshflow__StoreState *m, mf_store_state *out)
{
    const char *last = "";

    for (size_t i = 0; i < m->n_entries; i++) {
        const Meshflow__StoreEntry *e = m->entries[i];
        const mf_store_entry entry = {
            .key = e->key, .value = (char *)e->value.data, .size = e->value.len, .lease = e->lease
        };

        if (mf_store_check_key(e->key) != MF_OK || strcmp(last, e->key) >= 0 || e->lease < 0 ||
            e->value.len > MF_STORE_VALUE_MAX || e->version < 1 || e->version > m->revision)
            return MF_FAIL(MF_DATA_LOSS, "entry %zu of the store is invalid", i);
        last = e->key;
        out->all.revision = e->version - 1; /* put it at its own revision */
        MF_TRY(mf_store_state_put(out, &entry, MF_STORE_NEW));
    }
    return MF_OK;
}

static mf_status take_removed(const Meshflow__StoreState *m, mf_store_state *out)
{
    int64_t last = m->forgotten;

    if (m->n_removed > MF_STORE_REMOVALS || m->forgotten < 0 || m->forgotten > m->revision)
        return MF_FAIL(MF_DATA_LOSS, "the removals of the store are invalid");
    for (size_t i = 0; i < m->n_removed; i++) {
        const Meshflow__StoreRemoval *r = m->removed[i];

        if (mf_store_check_key(r->key) != MF_OK || r->revision <= last || r->revision > m->revision)
            return MF_FAIL(MF_DATA_LOSS, "removal %zu of the store is invalid", i);
        last = out->removed[i].revision = r->revision;
        memcpy(out->removed[i].key, r->key, strlen(r->key) + 1);
    }
    out->n_removed = (int)m->n_removed;
    out->forgotten = m->forgotten;
    return MF_OK;
}

static mf_status store_state_codec_take(const Meshflow__StoreState *m, mf_store_state *out)
{
    if (m->revision < 0 || m->revision > INT64_MAX / 2) /* no counter reaches this value */
        return MF_FAIL(MF_DATA_LOSS, "the store cannot have seen %lld changes",
                       (long long)m->revision);
    MF_TRY(take_entries(m, out));
    MF_TRY(take_removed(m, out));
    out->all.revision = m->revision;
    return MF_OK;
}

mf_status mf_store_state_decode(const void *data, size_t len, mf_store_state *out)
{
    ProtobufCMessage *message = NULL;
    mf_arena *arena;
    mf_status st;

    *out = (mf_store_state){ 0 };
    MF_TRY(check_head(data, len));
    arena = mf_arena_new();
    if (!arena)
        return MF_NOMEM("a store");
    st = mf_wire_decode(&meshflow__store_state__descriptor, (const char *)data + HEAD_BYTES,
                        len - HEAD_BYTES, NULL, arena, &message);
    if (st == MF_OK) {
        st = store_state_codec_take((const Meshflow__StoreState *)message, out);
    } else if (st == MF_INVALID_ARGUMENT) {
        st = MF_FAIL(MF_DATA_LOSS, "the state of the store is invalid: %.900s", mf_error_message());
    }
    mf_arena_free(arena);
    return st;
}
