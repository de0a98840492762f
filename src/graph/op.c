/* SPDX-License-Identifier: Apache-2.0 */
/* op.c - the registries: of the generated table of ops, and of the list of absent ops. */
#include "graph/absent.h"

#include <stdlib.h>
#include <string.h>

/* Generated: pointers to single ops, and to the first element of arrays terminated by a NULL name.
 */
extern const mf_op *const mf_op_singles[];
extern const mf_op *const mf_op_families[];
extern const mf_isa_ops mf_isa_ops_table[]; /* in order; ends with .singles == NULL */

typedef struct op_entry {
    const mf_op *op;
    const mf_kernel_def *kernels[MF_ISA_COUNT];
    _Atomic(mf_opdef *) def; /* NULL until first use */
} op_entry;

typedef struct op_registry {
    pthread_once_t once;
    pthread_mutex_t lock; /* guards arena and parsing */
    mf_arena *arena;
    const mf_op **ops; /* sorted by name */
    op_entry *entries; /* parallel to ops */
    int n;
    mf_map names; /* name -> op_entry */
} op_registry;

static op_registry computed = { .once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER };
static op_registry absent = { .once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER };

static int op_by_name(const void *a, const void *b)
{
    const mf_op *x = *(const mf_op *const *)a, *y = *(const mf_op *const *)b;

    return strcmp(x->name, y->name);
}

/* Room for n ops. When memory is exhausted the registry stays empty, and every lookup fails with
 * "not registered". */
static bool registry_room(op_registry *r, int n)
{
    r->arena = mf_arena_new();
    r->ops = mf_calloc(n + 1, sizeof(const mf_op *));
    r->entries = mf_calloc(n + 1, sizeof(op_entry));
    return r->arena && r->ops && r->entries;
}

static void registry_index(op_registry *r, int n)
{
    qsort(r->ops, (size_t)n, sizeof r->ops[0], op_by_name);
    for (int i = 0; i < n; i++) {
        r->entries[i].op = r->ops[i];
        for (int k = 0; k < MF_ISA_COUNT; k++)
            r->entries[i].kernels[k] = &r->ops[i]->kernel;
        if (mf_map_set(&r->names, r->ops[i]->name, &r->entries[i]) != MF_OK)
            return;
    }
    r->n = n;
}

/* ---- ops with a kernel ---- */

static int op_collect(const mf_op **out)
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

/* The op of a set replaces the record in this set and in those above. */
static void op_take_kernel(const mf_op *op, mf_isa isa)
{
    op_entry *e = mf_map_find(&computed.names, op->name);

    for (int k = (int)isa; e && k < MF_ISA_COUNT; k++)
        e->kernels[k] = &op->kernel;
}

static void op_take_set(const mf_isa_ops *set)
{
    for (int i = 0; set->singles[i]; i++)
        op_take_kernel(set->singles[i], set->isa);
    for (int i = 0; set->families[i]; i++) {
        for (const mf_op *op = set->families[i]; op->name; op++)
            op_take_kernel(op, set->isa);
    }
}

static void computed_init(void)
{
    const int n = op_collect(NULL);

    if (!registry_room(&computed, n))
        return;
    (void)op_collect(computed.ops);
    registry_index(&computed, n);
    for (int i = 0; mf_isa_ops_table[i].singles; i++)
        op_take_set(&mf_isa_ops_table[i]);
}

const mf_kernel_def *const *mf_op_kernels(const mf_op *op)
{
    const op_entry *e;

    pthread_once(&computed.once, computed_init);
    e = mf_map_find(&computed.names, op->name);
    return e ? e->kernels : NULL;
}

const mf_kernel_def *mf_kernel_of(const mf_op *op)
{
    const mf_kernel_def *const *kernels = mf_op_kernels(op);

    return kernels ? kernels[mf_isa_chosen()] : &op->kernel;
}

const mf_op *mf_op_find(const char *name)
{
    const op_entry *e;

    pthread_once(&computed.once, computed_init);
    e = mf_map_find(&computed.names, name);
    return e ? e->op : NULL;
}

const mf_op *const *mf_op_all(int *n)
{
    pthread_once(&computed.once, computed_init);
    *n = computed.n;
    return computed.ops;
}

/* ---- ops without ---- */

static mf_status run_absent(mf_kernel *k)
{
    return MF_FAIL(
        MF_UNIMPLEMENTED,
        "Meshflow does not support the op %s; docs/reference/ops.md lists the supported ops",
        k->node->op_name);
}

static void absent_init(void)
{
    mf_op *ops;
    int n = 0;

    while (mf_absent_ops[n].name)
        n++;
    if (!registry_room(&absent, n) || !(ops = MF_ARENA_ARRAY(absent.arena, mf_op, n)))
        return;
    for (int i = 0; i < n; i++) {
        ops[i] = (mf_op){ .name = mf_absent_ops[i].name,
                          .def = mf_absent_ops[i].def,
                          .flags = MF_OP_UNPLANNED,
                          .infer = mf_infer_unknown,
                          .grad = mf_grad_missing,
                          .run = run_absent };
        absent.ops[i] = &ops[i];
    }
    registry_index(&absent, n);
}

const mf_op *mf_op_absent(const char *name)
{
    const op_entry *e;

    pthread_once(&absent.once, absent_init);
    e = mf_map_find(&absent.names, name);
    return e ? e->op : NULL;
}

/* ---- signatures ---- */

static mf_status parse_def(op_registry *r, op_entry *e)
{
    mf_opdef *def;
    mf_status st = MF_OK;

    pthread_mutex_lock(&r->lock);
    if (!atomic_load(&e->def)) {
        def = MF_ARENA_NEW(r->arena, mf_opdef);
        st = def ? mf_opdef_parse(e->op->name, e->op->def, r->arena, def)
                 : MF_NOMEM("an op definition");
        if (st == MF_OK)
            atomic_store_explicit(&e->def, def, memory_order_release);
    }
    pthread_mutex_unlock(&r->lock);
    return st;
}

mf_status mf_op_def(const mf_op *op, const mf_opdef **out)
{
    op_registry *r = op->run == run_absent ? &absent : &computed;
    op_entry *e = mf_map_find(&r->names, op->name);

    *out = NULL;
    if (!e)
        return MF_FAIL(MF_NOT_FOUND, "Op type not registered '%s'", op->name);
    if (!atomic_load_explicit(&e->def, memory_order_acquire))
        MF_TRY(parse_def(r, e));
    *out = atomic_load_explicit(&e->def, memory_order_acquire);
    return MF_OK;
}
