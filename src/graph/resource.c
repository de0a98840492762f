/* SPDX-License-Identifier: Apache-2.0 */
/* resource.c - named objects. A key is "container/name", prefixed with the length of the container,
 * because both may contain slashes. */
#include "graph/resource.h"

#include "base/map.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

typedef struct resource {
    mf_object *object; /* owns one reference */
    char key[];
} resource;

struct mf_resources {
    pthread_mutex_t lock;
    mf_map map; /* key -> resource; guarded by lock */
    atomic_ullong generation;
    mf_mem_account *account;
};

mf_status mf_resources_new(mf_resources **out)
{
    mf_resources *r = mf_calloc(1, sizeof *r);

    *out = NULL;
    if (!r || mf_mem_account_new(&r->account) != MF_OK) {
        mf_free(r);
        return MF_NOMEM("resources");
    }
    pthread_mutex_init(&r->lock, NULL);
    *out = r;
    return MF_OK;
}

mf_mem_account *mf_resources_account(const mf_resources *resources)
{
    return resources->account;
}

static void resource_free(resource *r)
{
    mf_object_unref(r->object);
    mf_free(r);
}

void mf_resources_free(mf_resources *resources)
{
    int64_t it = 0;

    if (!resources)
        return;
    for (const mf_map_entry *e; (e = mf_map_next(&resources->map, &it)) != NULL;)
        resource_free(e->value);
    mf_map_deinit(&resources->map);
    mf_mem_account_unref(resources->account);
    pthread_mutex_destroy(&resources->lock);
    mf_free(resources);
}

static resource *resource_new(const char *container, const char *name)
{
    const size_t size = strlen(container) + strlen(name) + 32;
    resource *r;

    if (!container[0])
        container = "localhost";
    r = mf_calloc(1, sizeof *r + size);
    if (r)
        (void)snprintf(r->key, size, "%zu:%s/%s", strlen(container), container, name);
    return r;
}

mf_status mf_resources_get(mf_resources *resources, const char *container, const char *name,
                           const mf_object_type *type, mf_object_make *make, void *ctx,
                           mf_object **out)
{
    resource *fresh = resource_new(container, name), *r;
    mf_status st = MF_OK;

    *out = NULL;
    if (!fresh)
        return MF_NOMEM("a resource");
    pthread_mutex_lock(&resources->lock);
    r = mf_map_find(&resources->map, fresh->key);
    if (!r) {
        st = make(ctx, &fresh->object);
        if (st == MF_OK)
            st = mf_map_set(&resources->map, fresh->key, fresh);
        if (st == MF_OK) {
            r = fresh;
            fresh = NULL;
        }
    }
    if (r && r->object->type == type)
        *out = mf_object_ref(r->object);
    else if (r)
        st = MF_FAIL(MF_INVALID_ARGUMENT, "'%s' is a %s and cannot be used as a %s", name,
                     r->object->type->name, type->name);
    pthread_mutex_unlock(&resources->lock);
    if (fresh)
        resource_free(fresh);
    return st;
}

mf_object *mf_resources_find(mf_resources *resources, const char *container, const char *name)
{
    resource *key = resource_new(container, name);
    mf_object *found = NULL;

    if (!key)
        return NULL;
    pthread_mutex_lock(&resources->lock);
    const resource *r = mf_map_find(&resources->map, key->key);

    if (r)
        found = mf_object_ref(r->object);
    pthread_mutex_unlock(&resources->lock);
    mf_free(key);
    return found;
}

bool mf_resources_remove(mf_resources *resources, const mf_object *object)
{
    resource *gone = NULL;
    int64_t it = 0;

    pthread_mutex_lock(&resources->lock);
    for (const mf_map_entry *e; (e = mf_map_next(&resources->map, &it)) != NULL;) {
        if (((resource *)e->value)->object == object) {
            gone = mf_map_remove(&resources->map, e->key);
            atomic_fetch_add(&resources->generation, 1);
            break;
        }
    }
    pthread_mutex_unlock(&resources->lock);
    if (gone)
        resource_free(gone);
    return gone != NULL;
}

/* Destructors of objects may take any lock: each object is released outside ours. */
static void clear_prefix(mf_resources *resources, const char *prefix)
{
    resource *gone;

    do {
        int64_t it = 0;

        gone = NULL;
        pthread_mutex_lock(&resources->lock);
        for (const mf_map_entry *e; (e = mf_map_next(&resources->map, &it)) != NULL;) {
            if (strncmp(e->key, prefix, strlen(prefix)) == 0) {
                gone = mf_map_remove(&resources->map, e->key);
                atomic_fetch_add(&resources->generation, 1);
                break;
            }
        }
        pthread_mutex_unlock(&resources->lock);
        if (gone)
            resource_free(gone);
    } while (gone);
}

void mf_resources_clear(mf_resources *resources, const char *container)
{
    char prefix[300];

    if (!container[0])
        container = "localhost";
    (void)snprintf(prefix, sizeof prefix, "%zu:%.256s/", strlen(container), container);
    clear_prefix(resources, prefix);
}

void mf_resources_clear_all(mf_resources *resources)
{
    clear_prefix(resources, "");
}

uint64_t mf_resources_generation(const mf_resources *resources)
{
    return atomic_load_explicit(&resources->generation, memory_order_acquire);
}
