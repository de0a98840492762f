/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_session_relayout.c - changes the mesh and layout of a running session. */
#include "base/host_state.h"
#include "base/mem.h"
#include "spmd/lower/reshard_variables.h"
#include "spmd/session/mesh_session_private.h"

#include <string.h>

struct mf_mesh_change {
    mf_mesh_session *s;
    mf_mesh_setup setup;
    mf_mesh_variables variables;
    mf_mesh_run *run; /* the largest run, compiled for it; NULL: none so far */
    mf_relay_end *ends; /* by local device */
};

/* ---- check ---- */

static mf_mesh_setup mesh_session_relayout_setup_of(const mf_mesh_session *s,
                                                    const mf_mesh_setup *next)
{
    mf_mesh_setup setup = s->setup;

    setup.meshes = next->meshes;
    setup.rules = next->rules;
    setup.exact = next->exact;
    setup.micro_batches = next->micro_batches;
    setup.pipeline = next->pipeline;
    setup.chunks = next->chunks;
    memcpy(setup.layers, next->layers, sizeof setup.layers);
    return setup;
}

/* Slices that move need known sizes. */
static mf_status check_variables(const mf_mesh_variables *all)
{
    int64_t it = 0;
    const mf_map_entry *e;

    while ((e = mf_map_next(&all->layouts, &it)) != NULL) {
        if (!mf_shape_is_static(&((const mf_mesh_variable *)e->value)->shape))
            return MF_FAIL(MF_UNIMPLEMENTED,
                           "the variable '%s' has no known shape, so its slices cannot be moved: "
                           "declare its shape",
                           e->key);
    }
    return MF_OK;
}

static mf_status mesh_session_relayout_prepare(mf_mesh_change *c)
{
    mf_mesh_session *s = c->s;
    const mf_mesh_run *largest = mf_mesh_largest_run(s);

    MF_TRY(check_variables(&s->variables));
    MF_TRY(mf_mesh_variables_init(&c->variables));
    MF_TRY(mf_mesh_variables_add(&c->variables, &c->setup, s->graph));
    c->ends = mf_calloc(s->setup.n, sizeof *c->ends);
    if (!c->ends)
        return MF_NOMEM("devices");
    for (int i = 0; i < s->setup.n; i++) {
        c->ends[i] =
            (mf_relay_end){ .link = &s->devices[i].link, .before = s->devices[i].resources };
        MF_TRY(mf_resources_new(&c->ends[i].after));
    }
    return largest ? mf_mesh_compile_again(s, largest, &c->setup, &c->variables, &c->run) : MF_OK;
}

mf_status mf_mesh_change_new(mf_session *base, const mf_mesh_setup *next, mf_mesh_change **out)
{
    mf_mesh_session *s = mf_mesh_session_of(base);
    mf_mesh_change *c;
    mf_status st;

    *out = NULL;
    if (base->kind != &mf_mesh_session_kind)
        return MF_FAIL(MF_INVALID_ARGUMENT, "this session does not run on a mesh");
    if (next->meshes.devices != s->setup.meshes.devices)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "the new mesh has %d devices, but the session has %d: use the same number",
                       next->meshes.devices, s->setup.meshes.devices);
    c = mf_calloc(1, sizeof *c);
    if (!c)
        return MF_NOMEM("a change");
    c->s = s;
    c->setup = mesh_session_relayout_setup_of(s, next);
    pthread_mutex_lock(&s->lock);
    st = mesh_session_relayout_prepare(c);
    pthread_mutex_unlock(&s->lock);
    if (st == MF_OK) {
        *out = c;
        return MF_OK;
    }
    mf_mesh_change_free(c);
    return st == MF_UNIMPLEMENTED ? MF_INVALID_ARGUMENT : st; /* with the same message */
}

void mf_mesh_change_free(mf_mesh_change *c)
{
    if (!c)
        return;
    for (int i = 0; c->ends && i < c->s->setup.n; i++) {
        if (c->ends[i].after)
            mf_resources_free(c->ends[i].after);
    }
    mf_mesh_run_free(c->run);
    mf_free(c->ends);
    mf_mesh_variables_deinit(&c->variables);
    mf_free(c);
}

/* ---- move variables ---- */

static void relay_failed(void *ctx, mf_status why)
{
    mf_mesh_give_up(ctx, why, true);
}

static mf_status relay_with_table(const mf_mesh_change *c, const mf_run_options *options)
{
    mf_mesh_session *s = c->s;
    mf_mesh_wire *wire = s->setup.wire;
    const mf_relay r = { .from = &s->setup.meshes,
                         .to = &c->setup.meshes,
                         .before = &s->variables,
                         .after = &c->variables,
                         .ends = c->ends,
                         .n = s->setup.n,
                         .pool = s->pool,
                         .options = options,
                         .failed = relay_failed,
                         .ctx = s };
    mf_error why;
    mf_status st;

    if (wire)
        MF_TRY(wire->kind->check(wire));
    st = mf_reshard_variables(&r);
    if (st == MF_OK)
        return MF_OK;
    mf_error_save(st, &why);
    if (wire)
        MF_TRY(wire->kind->check(wire)); /* a peer's failure may be the cause */
    st = mf_error_restore(&why);
    return st == MF_INVALID_ARGUMENT ? MF_INTERNAL : st; /* the caller's arguments were valid */
}

static mf_status relay(const mf_mesh_change *c, const mf_run_options *options)
{
    mf_mesh_session *s = c->s;
    mf_rendezvous_table *table;
    mf_error why;

    MF_TRY(mf_rendezvous_tables_enter(s->tables, ++s->number, &table));
    mf_mesh_set_run_table(s, table);
    mf_error_save(relay_with_table(c, options), &why);
    mf_mesh_set_run_table(s, NULL);
    mf_rendezvous_table_leave(table);
    mf_rendezvous_tables_end(s->tables, s->number);
    return mf_error_restore(&why);
}

/* ---- switch to the new layout ---- */

static mf_status mesh_session_relayout_hand_out(void *ctx, mf_object **out)
{
    *out = mf_object_ref(ctx);
    return MF_OK;
}

/* Tables, queues and other resources of a device stay where they are. */
static mf_status replace_variables(const mf_mesh_variables *all, const mf_relay_end *end)
{
    const mf_map_entry *e;
    int64_t at = 0;
    mf_status st = MF_OK;

    while (st == MF_OK && (e = mf_map_next(&all->layouts, &at)) != NULL) {
        mf_object *old = mf_resources_find(end->before, "localhost", e->key),
                  *made = mf_resources_find(end->after, "localhost", e->key), *same = NULL;

        if (old)
            (void)mf_resources_remove(end->before, old);
        if (made)
            st = mf_resources_get(end->before, "", e->key, &mf_variable_type,
                                  mesh_session_relayout_hand_out, made, &same);
        mf_object_unref(same);
        mf_object_unref(made);
        mf_object_unref(old);
    }
    return st;
}

/* Runs that were compiled for the old layout are discarded. */
static mf_status take_over(mf_mesh_change *c)
{
    mf_mesh_session *s = c->s;
    const mf_mesh_variables old = s->variables;

    mf_mesh_free_runs(s);
    s->setup = c->setup;
    s->variables = c->variables;
    c->variables = old;
    for (int i = 0; i < s->setup.n; i++) {
        s->devices[i].planned += c->ends[i].planned;
        MF_TRY(replace_variables(&s->variables, &c->ends[i]));
    }
    if (c->run)
        MF_TRY(mf_mesh_add_run(s, c->run));
    c->run = NULL;
    return MF_OK;
}

mf_status mf_mesh_change_make(mf_mesh_change *c, const mf_run_options *options, int64_t *bytes)
{
    mf_mesh_session *s = c->s;
    mf_status st;

    pthread_mutex_lock(&s->lock);
    st = relay(c, options);
    *bytes = 0;
    for (int i = 0; st == MF_OK && i < s->setup.n; i++)
        *bytes += c->ends[i].planned;
    if (st == MF_OK)
        st = take_over(c);
    pthread_mutex_unlock(&s->lock);
    return st;
}

mf_status mf_mesh_session_relayout(mf_session *base, const mf_mesh_options *options, int64_t *bytes)
{
    MF_ENTRY;
    MF_NEED(base, options);

    mf_mesh_setup next = { .exact = options->exact };
    mf_mesh_change *c;
    int64_t moved = 0;
    mf_status st;

    MF_TRY(mf_meshes_parse(options->mesh ? options->mesh : "", options->layout, &next.meshes,
                           &next.rules));
    MF_TRY(mf_mesh_change_new(base, &next, &c));
    st = mf_mesh_change_make(c, NULL, &moved);
    mf_mesh_change_free(c);
    if (st == MF_OK && bytes)
        *bytes = moved;
    return st;
}
