/* SPDX-License-Identifier: Apache-2.0 */
/* map.c - open addressing with linear probing; a removed slot keeps a tombstone key. */
#include "base/map.h"

#include "base/clock.h"
#include "base/mem.h"

#include <stdatomic.h>
#include <string.h>

static const char tombstone[] = "";

uint64_t mf_hash(const void *data, size_t len, uint64_t seed)
{
    const unsigned char *p = data;
    uint64_t h = seed ^ 0x9e3779b97f4a7c15u ^ (uint64_t)len;

    while (len >= 8) {
        uint64_t v;

        memcpy(&v, p, 8);
        h = (h ^ v) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
        p += 8;
        len -= 8;
    }
    while (len-- > 0)
        h = (h ^ *p++) * 0x100000001b3u;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53u;
    return h ^ (h >> 29);
}

uint64_t mf_murmur(const void *data, size_t len)
{
    const uint64_t m = 0xc6a4a7935bd1e995u;
    const unsigned char *p = data;
    uint64_t h = 0xDECAFCAFFEu ^ len * m, k = 0;

    for (; len >= 8; p += 8, len -= 8) {
        memcpy(&k, p, 8);
        k *= m;
        k = (k ^ k >> 47) * m;
        h = (h ^ k) * m;
    }
    if (len > 0) {
        k = 0;
        memcpy(&k, p, len);
        h = (h ^ k) * m;
    }
    h = (h ^ h >> 47) * m;
    return h ^ h >> 47;
}

/* Names come from peers and files: a seed per process prevents chosen collisions. */
static uint64_t process_seed(void)
{
    static atomic_ullong seed;
    uint64_t s = atomic_load_explicit(&seed, memory_order_relaxed);

    if (s == 0) {
        unsigned long long expected = 0;

        s = mf_random_seed() | 1;
        if (!atomic_compare_exchange_strong(&seed, &expected, s))
            s = expected;
    }
    return s;
}

void mf_map_deinit(mf_map *map)
{
    mf_free(map->entries);
    *map = (mf_map){ 0 };
}

static mf_map_entry *map_lookup(const mf_map *map, const char *key, uint64_t hash)
{
    for (int64_t i = (int64_t)(hash & (uint64_t)(map->cap - 1));; i = (i + 1) & (map->cap - 1)) {
        mf_map_entry *e = &map->entries[i];

        if (!e->key)
            return e;
        if (e->key != tombstone && e->hash == hash && strcmp(e->key, key) == 0)
            return e;
    }
}

static mf_status rehash(mf_map *map, int64_t cap)
{
    mf_map bigger = { .entries = mf_calloc(cap, sizeof(mf_map_entry)), .cap = cap };
    int64_t it = 0;

    if (!bigger.entries)
        return MF_NOMEM("a map");
    for (const mf_map_entry *e; (e = mf_map_next(map, &it)) != NULL;)
        *map_lookup(&bigger, e->key, e->hash) = *e;
    bigger.count = map->count;
    mf_free(map->entries);
    *map = bigger;
    return MF_OK;
}

void *mf_map_find(const mf_map *map, const char *key)
{
    const mf_map_entry *e;

    if (map->count == 0)
        return NULL;
    e = map_lookup(map, key, mf_hash(key, strlen(key), process_seed()));
    return e->key ? e->value : NULL;
}

mf_status mf_map_set(mf_map *map, const char *key, void *value)
{
    const uint64_t hash = mf_hash(key, strlen(key), process_seed());
    mf_map_entry *e;

    MF_ASSERT(value);
    if ((map->count + map->dead + 1) * 4 > map->cap * 3) {
        /* Mostly tombstones: clean up in place; else grow. */
        const int64_t cap = map->count * 2 < map->cap ? map->cap : map->cap * 2;

        MF_TRY(rehash(map, cap < 16 ? 16 : cap));
    }
    e = map_lookup(map, key, hash);
    if (!e->key)
        map->count++;
    *e = (mf_map_entry){ .key = key, .hash = hash, .value = value };
    return MF_OK;
}

void *mf_map_remove(mf_map *map, const char *key)
{
    mf_map_entry *e;

    if (map->count == 0)
        return NULL;
    e = map_lookup(map, key, mf_hash(key, strlen(key), process_seed()));
    if (!e->key)
        return NULL;
    e->key = tombstone;
    map->count--;
    map->dead++;
    return e->value;
}

mf_map_entry *mf_map_next(const mf_map *map, int64_t *it)
{
    while (*it < map->cap) {
        mf_map_entry *e = &map->entries[(*it)++];

        if (e->key && e->key != tombstone)
            return e;
    }
    return NULL;
}
