/* SPDX-License-Identifier: Apache-2.0 */
/* reshard_variables.c - moves the variables of a running session to another layout. Every device
 * runs a graph of reshard ops for it: the old slices are fed, the new ones are fetched. */
#include "spmd/lower/reshard_variables.h"

#include "base/mem.h"
#include "base/thread.h"
#include "runtime/session.h"
#include "spmd/lower/reshard_step.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The state of one device. */
typedef struct device_reshard {
    const mf_relay *r;
    mf_relay_end *end;
    mf_arena *arena;
    mf_graph *graph;
    const char **feeds, **fetches, **targets; /* node names */
    const char **made; /* by fetch: the variable's name */
    mf_tensor **values, **results; /* by feed, by fetch */
    int n_feeds, n_fetches, n_targets;
    pthread_t thread;
    bool started;
    mf_error why;
} device_reshard;

/* ---- names, in the same order on all devices ---- */

static int reshard_variables_by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static mf_status list_names(const mf_relay *r, mf_arena *arena, const char ***out, int64_t *n)
{
    const mf_map_entry *e;
    int64_t at = 0;

    *n = 0;
    *out = MF_ARENA_ARRAY(arena, const char *, r->before->layouts.count + 1);
    if (!*out)
        return MF_NOMEM("variables");
    while ((e = mf_map_next(&r->before->layouts, &at)) != NULL)
        (*out)[(*n)++] = e->key;
    qsort(*out, (size_t)*n, sizeof **out, reshard_variables_by_name);
    return MF_OK;
}

/* ---- stores ---- */

static mf_status read_before(const device_reshard *c, const char *name, mf_tensor *out)
{
    mf_object *o = mf_resources_find(c->end->before, "localhost", name);
    mf_status st;

    if (o && o->type == &mf_variable_type)
        st = mf_variable_read((mf_variable *)o, out);
    else
        st = MF_FAIL(MF_FAILED_PRECONDITION, "the variable '%s' has no value yet", name);
    mf_object_unref(o);
    return st;
}

static mf_status write_after(const device_reshard *c, const char *name, const mf_tensor *value)
{
    mf_variable_spec spec = { value->dtype, &value->shape, name };
    mf_object *o = NULL;
    mf_status st =
        mf_resources_get(c->end->after, "", name, &mf_variable_type, mf_variable_make, &spec, &o);

    if (st == MF_OK)
        st = mf_variable_assign((mf_variable *)o, value, true);
    mf_object_unref(o);
    return st;
}

/* ---- the graph ---- */

static mf_status reshard_variables_add_feed(device_reshard *c, int64_t id, const mf_tensor *value,
                                            mf_output *out)
{
    char *name = mf_arena_printf(c->arena, "has_%" PRId64, id);
    mf_tensor *copy = MF_ARENA_NEW(c->arena, mf_tensor);
    mf_shape shape = value->shape;
    const mf_named_attr attrs[] = {
        { "dtype", { .kind = MF_ATTR_TYPE, .n = 1, .type = value->dtype } },
        { "shape", mf_shape_attr(&shape) },
    };
    const mf_node_spec spec = {
        .name = name, .op = "Placeholder", .attrs = attrs, .n_attrs = MF_COUNT(attrs)
    };

    if (!name || !copy)
        return MF_NOMEM("variables");
    mf_tensor_set(copy, value);
    c->values[c->n_feeds] = copy;
    c->feeds[c->n_feeds++] = name;
    return mf_graph_add(c->graph, &spec, &out->node);
}

/* The parts of one variable that a device sends and receives. */
typedef struct reshard_variables_parts {
    int64_t id;
    mf_dtype type;
    mf_shape before, after;
    mf_reshard_plan move;
    bool has, wants; /* the device holds a slice before; it holds one afterwards */
} reshard_variables_parts;

static mf_status list_attrs(const device_reshard *c, reshard_variables_parts *p,
                            mf_named_attr *attrs, int *n)
{
    const int rank = p->has ? p->before.rank : p->after.rank;
    int64_t *keep = MF_ARENA_ARRAY(c->arena, int64_t, 3 * MF_MAX_RANK);
    mf_attr peers, boxes;

    if (!keep)
        return MF_NOMEM("variables");
    *n = 0;
    attrs[(*n)++] = (mf_named_attr){ "id", mf_int_attr(p->id) };
    attrs[(*n)++] = (mf_named_attr){ "T", { .kind = MF_ATTR_TYPE, .n = 1, .type = p->type } };
    if (p->has) {
        MF_TRY(mf_reshard_step_write_boxes(c->arena, p->move.send, p->move.n_send, rank, &peers,
                                           &boxes));
        attrs[(*n)++] = (mf_named_attr){ "to", peers };
        attrs[(*n)++] = (mf_named_attr){ "send", boxes };
        attrs[(*n)++] = (mf_named_attr){ "from_shape", mf_shape_attr(&p->before) };
    }
    if (p->wants) {
        MF_TRY(mf_reshard_step_write_boxes(c->arena, p->move.receive, p->move.n_receive, rank,
                                           &peers, &boxes));
        attrs[(*n)++] = (mf_named_attr){ "from", peers };
        attrs[(*n)++] = (mf_named_attr){ "receive", boxes };
        attrs[(*n)++] = (mf_named_attr){ "shape", mf_shape_attr(&p->after) };
    }
    if (p->has && p->wants) {
        memcpy(keep, p->move.keep_from.begin, (size_t)rank * sizeof *keep);
        memcpy(keep + rank, p->move.keep_to.begin, (size_t)rank * sizeof *keep);
        memcpy(keep + 2 * rank, p->move.keep_to.size, (size_t)rank * sizeof *keep);
        attrs[(*n)++] = (mf_named_attr){ "keep", mf_ints_attr(keep, p->move.keeps ? 3 * rank : 0) };
        attrs[(*n)++] =
            (mf_named_attr){ "keeps", { .kind = MF_ATTR_BOOL, .n = 1, .b = p->move.keeps } };
    }
    return MF_OK;
}

static mf_status reshard_variables_add_parts(device_reshard *c, reshard_variables_parts *p,
                                             const char *variable, const mf_tensor *value)
{
    mf_named_attr attrs[12];
    mf_output in = { 0 };
    char *name = mf_arena_printf(c->arena, "gets_%" PRId64, p->id);
    mf_node_spec spec = { .name = name,
                          .op = !p->wants ? "_MeshSend"
                                : p->has  ? "_MeshMove"
                                          : "_MeshReceive",
                          .inputs = &in,
                          .n_inputs = p->has,
                          .attrs = attrs };
    mf_node *node;

    if (!name)
        return MF_NOMEM("variables");
    if (p->has)
        MF_TRY(reshard_variables_add_feed(c, p->id, value, &in));
    MF_TRY(list_attrs(c, p, attrs, &spec.n_attrs));
    MF_TRY(mf_graph_add(c->graph, &spec, &node));
    if (p->wants) {
        c->made[c->n_fetches] = variable;
        c->fetches[c->n_fetches++] = name;
    } else {
        c->targets[c->n_targets++] = name;
    }
    return MF_OK;
}

static bool reshard_variables_stays(const reshard_variables_parts *p)
{
    return p->has && p->wants && p->move.n_send == 0 && p->move.n_receive == 0 &&
           mf_shape_equal(&p->before, &p->after);
}

static mf_status reshard_variables_add_variable(device_reshard *c, const char *name, int64_t id)
{
    const mf_relay *r = c->r;
    const mf_mesh_variable *a = mf_map_find(&r->before->layouts, name),
                           *b = mf_map_find(&r->after->layouts, name);
    const int self = c->end->link->self;
    mf_cross_mesh cross;
    mf_tensor value = { 0 };
    mf_box box;
    reshard_variables_parts p = { .id = id };
    mf_status st = MF_OK;

    if (!b)
        return MF_FAIL(MF_INTERNAL, "the new layout does not place the variable '%s'", name);
    cross = (mf_cross_mesh){ &r->from->at[a->mesh], &r->to->at[b->mesh], &a->layout, &b->layout,
                             &a->shape };
    p.type = a->dtype;
    p.has = mf_mesh_has(cross.a, self);
    p.wants = mf_mesh_has(cross.b, self);
    if (!p.has && !p.wants)
        return MF_OK;
    MF_TRY(mf_cross_mesh_plan(&cross, self, c->arena, &p.move));
    box = mf_layout_box(cross.a, cross.from, cross.shape, self);
    p.before = mf_box_shape(&box, a->shape.rank);
    box = mf_layout_box(cross.b, cross.to, cross.shape, self);
    p.after = mf_box_shape(&box, a->shape.rank);
    for (int k = 0; k < p.move.n_receive; k++)
        c->end->planned +=
            mf_box_count(&p.move.receive[k].box, a->shape.rank) * (int64_t)mf_dtype_cell(p.type);
    if (p.has)
        MF_TRY(read_before(c, name, &value));
    if (reshard_variables_stays(&p))
        st = write_after(c, name, &value);
    else if (p.wants || p.move.n_send > 0)
        st = reshard_variables_add_parts(c, &p, name, &value);
    mf_tensor_clear(&value);
    return st;
}

static mf_status reshard_variables_build(device_reshard *c)
{
    const char **names;
    int64_t n;

    c->arena = mf_arena_new();
    if (!c->arena)
        return MF_NOMEM("variables");
    MF_TRY(list_names(c->r, c->arena, &names, &n));
    MF_TRY(mf_graph_new(&c->graph));
    c->feeds = MF_ARENA_ARRAY(c->arena, const char *, n + 1);
    c->fetches = MF_ARENA_ARRAY(c->arena, const char *, n + 1);
    c->targets = MF_ARENA_ARRAY(c->arena, const char *, n + 1);
    c->made = MF_ARENA_ARRAY(c->arena, const char *, n + 1);
    c->values = MF_ARENA_ARRAY(c->arena, mf_tensor *, n + 1);
    c->results = MF_ARENA_ARRAY(c->arena, mf_tensor *, n + 1);
    if (!c->feeds || !c->fetches || !c->targets || !c->made || !c->values || !c->results)
        return MF_NOMEM("variables");
    for (int64_t i = 0; i < n; i++)
        MF_TRY(reshard_variables_add_variable(c, names[i], i));
    return MF_OK;
}

/* ---- running ---- */

static mf_status reshard_variables_run(device_reshard *c)
{
    const mf_run_with with = { .mesh = c->end->link };
    mf_resources *nothing = NULL;
    mf_session_shared shared = { .pool = c->r->pool };
    mf_session *session = NULL;
    mf_status st;

    if (c->n_fetches + c->n_targets == 0)
        return MF_OK;
    st = mf_resources_new(&nothing);
    shared.resources = shared.node_state = nothing;
    if (st == MF_OK)
        st = mf_session_new_shared(c->graph, &(mf_session_options){ 0 }, &shared, &session);
    if (st == MF_OK)
        st = mf_session_run_with(session, c->r->options, &with, c->feeds,
                                 (const mf_tensor *const *)c->values, c->n_feeds, c->fetches,
                                 c->n_fetches, c->targets, c->n_targets, c->results);
    for (int i = 0; st == MF_OK && i < c->n_fetches; i++)
        st = write_after(c, c->made[i], c->results[i]);
    mf_session_free(session);
    if (nothing)
        mf_resources_free(nothing);
    return st;
}

static void *device_reshard_main(void *arg)
{
    device_reshard *c = arg;
    mf_status st = reshard_variables_build(c);

    if (st == MF_OK)
        st = reshard_variables_run(c);
    if (st != MF_OK) {
        mf_error_save(st, &c->why);
        c->r->failed(c->r->ctx, st);
    }
    return NULL;
}

static void device_reshard_deinit(device_reshard *c)
{
    for (int i = 0; i < c->n_feeds; i++)
        mf_tensor_clear(c->values[i]);
    for (int i = 0; i < c->n_fetches; i++)
        mf_tensor_free(c->results[i]);
    mf_graph_free(c->graph);
    mf_arena_free(c->arena);
}

mf_status mf_reshard_variables(const mf_relay *r)
{
    device_reshard *all = mf_calloc(r->n, sizeof *all);
    mf_status st = MF_OK;

    if (!all)
        return MF_NOMEM("variables");
    for (int i = 0; i < r->n; i++) {
        all[i] = (device_reshard){ .r = r, .end = &r->ends[i] };
        all[i].started =
            i > 0 && mf_thread_start(&all[i].thread, device_reshard_main, &all[i]) == 0;
        if (i > 0 && !all[i].started) {
            mf_error_save(MF_NOMEM("threads of a mesh"), &all[i].why);
            r->failed(r->ctx, MF_RESOURCE_EXHAUSTED);
        }
    }
    (void)device_reshard_main(&all[0]);
    for (int i = 0; i < r->n; i++) {
        if (all[i].started)
            pthread_join(all[i].thread, NULL);
        if (st == MF_OK && all[i].why.status != MF_OK)
            st = mf_error_restore(&all[i].why);
        device_reshard_deinit(&all[i]);
    }
    mf_free(all);
    return st;
}
