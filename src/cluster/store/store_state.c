/* SPDX-License-Identifier: Apache-2.0 */
/* store_state.c - keys, values, revisions and leases of a store, without I/O. */
#include "cluster/store/store_state.h"

#include "base/mem.h"

#include <string.h>

/* Bound of the encoded size of an entry or a removal without its bytes. */
enum { ENTRY_BYTES = 48 };

void mf_store_state_deinit(mf_store_state *s)
{
    mf_store_entries_deinit(&s->all);
    *s = (mf_store_state){ 0 };
}

/* ---- looking ---- */

/* The first that is not before `key`. */
static int store_state_place_of(const mf_store_state *s, const char *key)
{
    int low = 0, high = s->all.n;

    while (low < high) {
        const int mid = low + (high - low) / 2;

        if (strcmp(s->all.entries[mid].key, key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool is_at(const mf_store_state *s, int place, const char *key)
{
    return place < s->all.n && strcmp(s->all.entries[place].key, key) == 0;
}

static bool is_below(const char *key, const char *prefix)
{
    return strncmp(key, prefix, strlen(prefix)) == 0;
}

const mf_store_entry *mf_store_state_find(const mf_store_state *s, const char *key)
{
    const int place = store_state_place_of(s, key);

    return is_at(s, place, key) ? &s->all.entries[place] : NULL;
}

static mf_status copy_entry(const mf_store_entry *e, mf_store_entry *out)
{
    *out = *e;
    out->key = mf_strdup(e->key);
    out->value = mf_strndup(e->size > 0 ? e->value : "", e->size);
    if (out->key && out->value)
        return MF_OK;
    mf_store_entry_deinit(out);
    return MF_NOMEM("a value of a store");
}

mf_status mf_store_state_get(const mf_store_state *s, const char *key, mf_store_entry *out,
                             int64_t *revision)
{
    const mf_store_entry *e = mf_store_state_find(s, key);

    *revision = s->all.revision;
    if (!e)
        return MF_FAIL(MF_NOT_FOUND, "the store has no '%s'", key);
    return copy_entry(e, out);
}

mf_status mf_store_state_list(const mf_store_state *s, const char *prefix, mf_store_entries *out)
{
    const int first = store_state_place_of(s, prefix);
    mf_status st = MF_OK;
    int n = 0;

    out->revision = s->all.revision;
    while (first + n < s->all.n && is_below(s->all.entries[first + n].key, prefix))
        n++;
    if (n == 0)
        return MF_OK;
    out->entries = mf_calloc(n, sizeof *out->entries);
    if (!out->entries)
        return MF_NOMEM("values of a store");
    for (int i = 0; i < n && st == MF_OK; i++) {
        st = copy_entry(&s->all.entries[first + i], &out->entries[i]);
        out->n += st == MF_OK;
    }
    if (st != MF_OK)
        mf_store_entries_deinit(out);
    return st;
}

bool mf_store_state_changed(const mf_store_state *s, const char *prefix, int64_t after)
{
    if (s->all.revision <= after)
        return false;
    for (int i = store_state_place_of(s, prefix);
         i < s->all.n && is_below(s->all.entries[i].key, prefix); i++) {
        if (s->all.entries[i].version > after)
            return true;
    }
    for (int i = 0; i < s->n_removed; i++) {
        if (s->removed[i].revision > after && is_below(s->removed[i].key, prefix))
            return true;
    }
    return after < s->forgotten;
}

/* ---- changing ---- */

static mf_status store_state_check_room(const mf_store_state *s, const char *key, size_t before,
                                        size_t after)
{
    const size_t removals = MF_STORE_REMOVALS * (size_t)(ENTRY_BYTES + MF_STORE_KEY_MAX);

    if (s->bytes - before + after + removals <= MF_STORE_STATE_MAX)
        return MF_OK;
    return MF_FAIL(MF_RESOURCE_EXHAUSTED,
                   "no space for '%s': the store holds %zu bytes, and at most %d fit", key,
                   s->bytes, MF_STORE_STATE_MAX);
}

static size_t store_state_bytes_of(const mf_store_entry *e)
{
    return ENTRY_BYTES + strlen(e->key) + e->size;
}

static mf_status insert(mf_store_state *s, int place, mf_store_entry *e)
{
    mf_store_entry *at;

    MF_TRY(mf_grow(&s->all.entries, &s->cap, s->all.n + 1, sizeof *s->all.entries));
    at = s->all.entries + place;
    memmove(at + 1, at, (size_t)(s->all.n - place) * sizeof *at);
    *at = *e;
    s->all.n++;
    return MF_OK;
}

mf_status mf_store_state_put(mf_store_state *s, const mf_store_entry *e, int64_t expected)
{
    const int place = store_state_place_of(s, e->key);
    const bool is_new = !is_at(s, place, e->key);
    const size_t before = is_new ? 0 : store_state_bytes_of(&s->all.entries[place]);
    mf_store_entry copy;
    mf_status st = MF_OK;

    MF_TRY(mf_store_check_version(e->key, is_new ? 0 : s->all.entries[place].version, expected));
    MF_TRY(store_state_check_room(s, e->key, before, store_state_bytes_of(e)));
    MF_TRY(copy_entry(e, &copy));
    copy.version = s->all.revision + 1;
    if (is_new) {
        st = insert(s, place, &copy);
    } else {
        mf_store_entry_deinit(&s->all.entries[place]);
        s->all.entries[place] = copy;
    }
    if (st != MF_OK) {
        mf_store_entry_deinit(&copy);
        return st;
    }
    s->all.revision++;
    s->bytes += store_state_bytes_of(e) - before;
    return MF_OK;
}

static void remember_removal(mf_store_state *s, const char *key)
{
    if (s->n_removed == MF_STORE_REMOVALS) {
        s->forgotten = s->removed[0].revision;
        memmove(s->removed, s->removed + 1, sizeof s->removed - sizeof s->removed[0]);
        s->n_removed--;
    }
    s->removed[s->n_removed] = (mf_store_removal){ .revision = s->all.revision };
    memcpy(s->removed[s->n_removed].key, key, strlen(key) + 1);
    s->n_removed++;
}

static void remove_at(mf_store_state *s, int place)
{
    mf_store_entry *at = s->all.entries + place;

    s->all.revision++;
    s->bytes -= store_state_bytes_of(at);
    remember_removal(s, at->key);
    mf_store_entry_deinit(at);
    s->all.n--;
    memmove(at, at + 1, (size_t)(s->all.n - place) * sizeof *at);
}

mf_status mf_store_state_remove(mf_store_state *s, const char *key, int64_t expected)
{
    const mf_store_entry *e = mf_store_state_find(s, key);

    MF_TRY(mf_store_check_version(key, e ? e->version : 0, expected));
    if (!e)
        return MF_FAIL(MF_NOT_FOUND, "the store has no '%s'", key);
    remove_at(s, (int)(e - s->all.entries));
    return MF_OK;
}

bool mf_store_state_end_lease(mf_store_state *s, int64_t lease)
{
    const int before = s->all.n;

    for (int i = s->all.n - 1; i >= 0; i--) {
        if (s->all.entries[i].lease == lease)
            remove_at(s, i);
    }
    return s->all.n < before;
}
