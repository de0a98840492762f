/* SPDX-License-Identifier: Apache-2.0 */
/* dnnl_util.c - engine, stream and memory objects of oneDNN, one thread per call.
 *
 * A running primitive needs memory objects of its own; they are kept in the primitive's list
 * between runs, so a steady state creates none. */
#include "ops/dnnl/dnnl_util.h"

#include "base/mem.h"

#include <pthread.h>
#include <stdio.h>

/* From the OpenMP library that oneDNN is linked to. Its header belongs to the compiler, and clang
 * is shipped without one. */
void omp_set_num_threads(int n);

typedef struct run_context {
    dnnl_stream_t stream;
    dnnl_exec_arg_t args[MF_DNNL_ARGS + 1];
    struct run_context *next;
} run_context;

struct mf_dnnl_prim {
    char what[96];
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t prim;
    int n_args;
    int arg[MF_DNNL_ARGS];
    dnnl_memory_desc_t md[MF_DNNL_ARGS + 1]; /* the last one: scratchpad */
    pthread_mutex_t lock;
    run_context *idle; /* guarded by lock */
};

static struct {
    pthread_once_t once;
    dnnl_engine_t engine;
    dnnl_status_t status;
} shared = { .once = PTHREAD_ONCE_INIT };

static void make_engine(void)
{
    shared.status = dnnl_engine_create(&shared.engine, dnnl_cpu, 0);
}

void mf_dnnl_enter(void)
{
    static _Thread_local bool entered;

    if (!entered)
        omp_set_num_threads(1);
    entered = true;
}

mf_status mf_dnnl_status(dnnl_status_t status, const char *what)
{
    if (status == dnnl_success)
        return MF_OK;
    if (status == dnnl_out_of_memory)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "oneDNN: %s: out of memory", what);
    if (status == dnnl_unimplemented)
        return MF_FAIL(MF_UNIMPLEMENTED, "oneDNN: %s: not implemented for these shapes", what);
    return MF_FAIL(MF_INTERNAL, "oneDNN: %s: status %d", what, (int)status);
}

mf_status mf_dnnl_engine(dnnl_engine_t *out)
{
    mf_dnnl_enter();
    pthread_once(&shared.once, make_engine);
    *out = shared.engine;
    return mf_dnnl_status(shared.status, "creating the engine");
}

mf_status mf_dnnl_prim_new(dnnl_primitive_desc_t pd, const char *what, const dnnl_query_t *queries,
                           const int *args, int n_args, mf_dnnl_prim **out)
{
    mf_dnnl_prim *p = mf_calloc(1, sizeof *p);
    const char *impl = "?";
    mf_status st;

    *out = NULL;
    if (!p) {
        dnnl_primitive_desc_destroy(pd);
        return MF_NOMEM("a primitive");
    }
    p->pd = pd;
    p->n_args = n_args;
    pthread_mutex_init(&p->lock, NULL);
    (void)dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, (void *)&impl);
    snprintf(p->what, sizeof p->what, "%s (%s)", what, impl);
    for (int i = 0; i < n_args; i++) {
        p->arg[i] = args[i];
        p->md[i] = *dnnl_primitive_desc_query_md(pd, queries[i], 0);
    }
    p->md[n_args] = *dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    st = mf_dnnl_status(dnnl_primitive_create(&p->prim, pd), p->what);
    if (st != MF_OK) {
        mf_dnnl_prim_free(p);
        return st;
    }
    *out = p;
    return MF_OK;
}

mf_status mf_dnnl_reorder_new(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                              mf_dnnl_prim **out)
{
    const dnnl_query_t queries[] = { dnnl_query_src_md, dnnl_query_dst_md };
    const int args[] = { DNNL_ARG_FROM, DNNL_ARG_TO };
    dnnl_primitive_attr_t attr = NULL;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_engine_t engine;
    dnnl_status_t status;

    *out = NULL;
    MF_TRY(mf_dnnl_engine(&engine));
    status = dnnl_primitive_attr_create(&attr);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, attr);
    dnnl_primitive_attr_destroy(attr);
    MF_TRY(mf_dnnl_status(status, "reorder"));
    return mf_dnnl_prim_new(pd, "reorder", queries, args, 2, out);
}

static void context_free(run_context *c, int n_args)
{
    for (int i = 0; i <= n_args; i++) {
        if (c->args[i].memory)
            dnnl_memory_destroy(c->args[i].memory);
    }
    if (c->stream)
        dnnl_stream_destroy(c->stream);
    mf_free(c);
}

void mf_dnnl_prim_free(mf_dnnl_prim *prim)
{
    if (!prim)
        return;
    for (run_context *c = prim->idle, *next; c; c = next) {
        next = c->next;
        context_free(c, prim->n_args);
    }
    if (prim->prim)
        dnnl_primitive_destroy(prim->prim);
    dnnl_primitive_desc_destroy(prim->pd);
    pthread_mutex_destroy(&prim->lock);
    mf_free(prim);
}

const dnnl_memory_desc_t *mf_dnnl_prim_md(const mf_dnnl_prim *prim, int arg)
{
    return &prim->md[arg];
}

size_t mf_dnnl_prim_bytes(const mf_dnnl_prim *prim, int arg)
{
    return dnnl_memory_desc_get_size(&prim->md[arg]);
}

size_t mf_dnnl_prim_scratch(const mf_dnnl_prim *prim)
{
    return dnnl_memory_desc_get_size(&prim->md[prim->n_args]);
}

static mf_status context_new(const mf_dnnl_prim *p, run_context **out)
{
    run_context *c = mf_calloc(1, sizeof *c);
    dnnl_engine_t engine;
    dnnl_status_t status;

    *out = NULL;
    if (!c)
        return MF_NOMEM("a primitive's context");
    if (mf_dnnl_engine(&engine) != MF_OK) {
        mf_free(c);
        return MF_INTERNAL;
    }
    status = dnnl_stream_create(&c->stream, engine, dnnl_stream_default_flags);
    for (int i = 0; status == dnnl_success && i <= p->n_args; i++) {
        c->args[i].arg = i < p->n_args ? p->arg[i] : DNNL_ARG_SCRATCHPAD;
        status = dnnl_memory_create(&c->args[i].memory, &p->md[i], engine, DNNL_MEMORY_NONE);
    }
    if (status != dnnl_success) {
        context_free(c, p->n_args);
        return mf_dnnl_status(status, p->what);
    }
    *out = c;
    return MF_OK;
}

mf_status mf_dnnl_prim_run(mf_dnnl_prim *prim, void *const *data, void *scratch)
{
    dnnl_status_t status = dnnl_success;
    run_context *c;

    mf_dnnl_enter();
    pthread_mutex_lock(&prim->lock);
    c = prim->idle;
    if (c)
        prim->idle = c->next;
    pthread_mutex_unlock(&prim->lock);
    if (!c)
        MF_TRY(context_new(prim, &c));
    for (int i = 0; status == dnnl_success && i <= prim->n_args; i++)
        status = dnnl_memory_set_data_handle_v2(c->args[i].memory,
                                                i < prim->n_args ? data[i] : scratch, c->stream);
    if (status == dnnl_success)
        status = dnnl_primitive_execute(prim->prim, c->stream, prim->n_args + 1, c->args);
    if (status == dnnl_success)
        status = dnnl_stream_wait(c->stream);
    pthread_mutex_lock(&prim->lock);
    c->next = prim->idle;
    prim->idle = c;
    pthread_mutex_unlock(&prim->lock);
    return mf_dnnl_status(status, prim->what);
}
