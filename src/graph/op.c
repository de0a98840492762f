/* SPDX-License-Identifier: Apache-2.0 */
/* op.c - the registry over the generated table of ops. */
#include "graph/op.h"

#include <stdlib.h>
#include <string.h>

/* Generated: pointers to single ops, and to the first of arrays ended by a NULL name. */
extern const mf_op *const mf_op_singles[];
extern const mf_op *const mf_op_families[];

typedef struct op_entry {
    const mf_op *op;
    _Atomic(mf_opdef *) def; /* NULL until first asked for */
} op_entry;

static struct {
    pthread_once_t once;
    pthread_mutex_t lock; /* guards arena and parsing */
    mf_arena *arena;
    const mf_op **ops; /* sorted by name */
    op_entry *entries; /* parallel to ops */
    int n;
    mf_map names; /* name -> op_entry */
} registry = { .once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER };

static int by_name(const void *a, const void *b)
{
    const mf_op *x = *(const mf_op *const *)a, *y = *(const mf_op *const *)b;

    return strcmp(x->name, y->name);
}

static int collect(const mf_op **out)
{
    int n = 0;

    for (int i = 0; mf_op_singles[i]; i++, n++) {
        if (out)
            out[n] = mf_op_singles[i];
    }
    for (int i = 0; mf_op_families[i]; i++) {
        for (const mf_op *op = mf_op_families[i]; op->name; op++, n++) {
            if (out)
                out[n] = op;
        }
    }
    return n;
}

static void registry_init(void)
{
    const int n = collect(NULL);

    registry.arena = mf_arena_new();
    registry.ops = mf_calloc(n + 1, sizeof(const mf_op *));
    registry.entries = mf_calloc(n + 1, sizeof(op_entry));
    if (!registry.arena || !registry.ops || !registry.entries)
        return; /* an empty registry: every look-up says "not registered" */
    (void)collect(registry.ops);
    qsort(registry.ops, (size_t)n, sizeof registry.ops[0], by_name);
    for (int i = 0; i < n; i++) {
        registry.entries[i].op = registry.ops[i];
        if (mf_map_set(&registry.names, registry.ops[i]->name, &registry.entries[i]) != MF_OK)
            return;
    }
    registry.n = n;
}

static op_entry *entry_find(const char *name)
{
    pthread_once(&registry.once, registry_init);
    return mf_map_find(&registry.names, name);
}

const mf_op *mf_op_find(const char *name)
{
    const op_entry *e = entry_find(name);

    return e ? e->op : NULL;
}

const mf_op *const *mf_op_all(int *n)
{
    pthread_once(&registry.once, registry_init);
    *n = registry.n;
    return registry.ops;
}

mf_status mf_op_def(const mf_op *op, const mf_opdef **out)
{
    op_entry *e = entry_find(op->name);
    mf_opdef *def;
    mf_status st = MF_OK;

    *out = NULL;
    if (!e)
        return MF_FAIL(MF_NOT_FOUND, "Op type not registered '%s'", op->name);
    def = atomic_load_explicit(&e->def, memory_order_acquire);
    if (!def) {
        pthread_mutex_lock(&registry.lock);
        def = atomic_load(&e->def);
        if (!def) {
            def = MF_ARENA_NEW(registry.arena, mf_opdef);
            st = def ? mf_opdef_parse(op->name, op->def, registry.arena, def)
                     : MF_NOMEM("an op definition");
            if (st == MF_OK)
                atomic_store_explicit(&e->def, def, memory_order_release);
        }
        pthread_mutex_unlock(&registry.lock);
    }
    if (st == MF_OK)
        *out = def;
    return st;
}
