/* SPDX-License-Identifier: Apache-2.0 */
/* map.h - a hash map from strings to pointers. Keys are borrowed: they must outlive the map. */
#ifndef MF_BASE_MAP_H
#define MF_BASE_MAP_H

#include "base/status.h"

typedef struct mf_map_entry {
    const char *key; /* NULL: empty slot */
    uint64_t hash;
    void *value;
} mf_map_entry;

/* All zero is an empty map. */
typedef struct mf_map {
    mf_map_entry *entries;
    int64_t cap, count, dead;
} mf_map;

void mf_map_deinit(mf_map *map);
/* NULL when absent. */
void *mf_map_find(const mf_map *map, const char *key);
/* Add or replace. `value` must not be NULL. RESOURCE_EXHAUSTED. */
MF_MUST mf_status mf_map_set(mf_map *map, const char *key, void *value);
/* Returns the removed value or NULL. */
void *mf_map_remove(mf_map *map, const char *key);
/* Iterate in unspecified order: start with *it = 0; NULL at the end. */
mf_map_entry *mf_map_next(const mf_map *map, int64_t *it);

uint64_t mf_hash(const void *data, size_t len, uint64_t seed);
/* MurmurHash64A with TensorFlow's seed. Other programs compute the same hash. */
uint64_t mf_murmur(const void *data, size_t len);

#endif
