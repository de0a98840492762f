/* SPDX-License-Identifier: Apache-2.0 */
/* ps_store.c - slices of weights and slots of a parameter server, and the graph that updates them.
 */
#include "dist/param_server/ps_store.h"

#include <stdio.h>
#include <string.h>

/* ---- a model of slices ---- */

static mf_status ps_store_add_weight(mf_model *m, const mf_piece *slice)
{
    const mf_shape shape = mf_piece_shape(slice);
    mf_weight *w = MF_ARENA_NEW(m->graph->arena, mf_weight);
    char text[MF_SHAPE_TEXT];

    if (!w)
        return MF_NOMEM("a weight");
    MF_TRY(mf_grow(&m->weights, &m->cap_weights, m->n_weights + 1, sizeof(mf_weight *)));
    *w = *slice->weight;
    w->shape = shape;
    w->lookups = NULL;
    for (const mf_lookup *k = slice->weight->lookups; k; k = k->next) {
        mf_lookup *twin = MF_ARENA_NEW(m->graph->arena, mf_lookup);

        if (!twin)
            return MF_NOMEM("a weight");
        twin->next = w->lookups;
        w->lookups = twin;
    }
    w->name = mf_arena_strdup(m->graph->arena, slice->weight->name);
    w->handle = mf_applyf(m->graph, "VarHandleOp", MF_NO_IN,
                          "dtype=float shape=shape%s shared_name='%s' name='%s'",
                          mf_shape_text(&shape, text), w->name, w->name);
    w->value = mf_applyf(m->graph, "ReadVariableOp", MF_IN(w->handle), "dtype=float");
    w->initial = mf_apply(
        m->graph, "Fill",
        MF_IN(mf_ints(m->graph, shape.dims, shape.rank), mf_scalar(m->graph, MF_DTYPE_F32, 0.0)));
    m->weights[m->n_weights++] = w;
    return mf_graph_status(m->graph);
}

/* ---- variables that change by rows ---- */

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* It reads the variable behind its first input, or writes only some rows. */
static bool keeps_other_rows(const char *op)
{
    return has_prefix(op, "ResourceSparseApply") || has_prefix(op, "ResourceScatter") ||
           strcmp(op, "ResourceGather") == 0 || strcmp(op, "ReadVariableOp") == 0;
}

static bool is_initialization(const mf_ps_store *s, const mf_node *n)
{
    for (int i = 0; i < s->graph.init->n_controls; i++) {
        if (s->graph.init->controls[i] == n)
            return true;
    }
    return false;
}

static bool ps_store_uses(const mf_node *n, const mf_node *handle)
{
    for (int i = 0; i < n->n_inputs; i++) {
        if (n->inputs[i].node == handle)
            return true;
    }
    return false;
}

static bool changes_by_rows(const mf_ps_store *s, const mf_node *handle)
{
    const mf_graph *g = s->model->graph;

    for (int64_t i = 0; i < g->n_nodes; i++) {
        const mf_node *n = g->nodes[i];

        if (ps_store_uses(n, handle) && !keeps_other_rows(n->op_name) && !is_initialization(s, n))
            return false;
    }
    return true;
}

/* Is this variable the weight or one of its slots? */
static bool is_of_weight(const char *name, const mf_weight *w)
{
    const size_t n = strlen(w->name);

    return has_prefix(name, w->name) && (name[n] == '\0' || name[n] == '/');
}

/* The gradient whose rows are all that an update changes; -1: none. */
static int ps_store_find_rows(const mf_ps_store *s, const char *name, const mf_node *handle,
                              const mf_shape *shape)
{
    for (int g = 0; g < s->graph.n_gradients; g++) {
        const mf_weight *w = s->graph.gradients[g].weight;

        if (w->lookups && is_of_weight(name, w) && mf_shape_equal(shape, &w->shape) &&
            changes_by_rows(s, handle))
            return g;
    }
    return -1;
}

/* ---- variables ---- */

/* handle: its node; NULL: none of a table. */
static mf_status ps_store_add_variable(mf_ps_store *s, const char *name, mf_dtype dtype,
                                       const mf_shape *shape, const mf_node *handle)
{
    mf_variable_spec spec = { .dtype = dtype, .declared = shape, .name = name };
    mf_object *object;

    MF_TRY(mf_resources_get(s->resources, "", name, &mf_variable_type, mf_variable_make, &spec,
                            &object));
    s->variables[s->n_variables++] =
        (mf_ps_variable){ name, (mf_variable *)object,
                          handle ? ps_store_find_rows(s, name, handle, shape) : -1 };
    return MF_OK;
}

static mf_status ps_store_list_variables(mf_ps_store *s)
{
    const mf_updates *u = &s->graph.updates;

    s->variables = mf_calloc(s->n_slices + u->n_states + 1, sizeof *s->variables);
    if (!s->variables)
        return MF_NOMEM("variables");
    for (int64_t i = 0; i < s->model->n_weights; i++)
        MF_TRY(ps_store_add_variable(s, s->model->weights[i]->name, MF_DTYPE_F32,
                                     &s->model->weights[i]->shape,
                                     s->model->weights[i]->handle.node));
    for (int64_t i = 0; i < u->n_states; i++)
        MF_TRY(ps_store_add_variable(s, u->states[i].name, u->states[i].dtype, &u->states[i].shape,
                                     u->states[i].handle.node));
    return ps_store_add_variable(s, "global_step", MF_DTYPE_I64, &MF_SCALAR, NULL);
}

bool mf_ps_store_changes_rows(const mf_ps_store *s, int weight)
{
    return s->variables[weight].rows >= 0;
}

mf_status mf_ps_store_steps(const mf_ps_store *s, int64_t *out)
{
    mf_tensor value = { 0 };

    MF_TRY(mf_variable_read(s->variables[s->n_variables - 1].variable, &value));
    *out = ((const int64_t *)value.data)[0];
    mf_tensor_clear(&value);
    return MF_OK;
}

mf_status mf_ps_store_size(const mf_ps_store *s, bool slots, size_t *out)
{
    *out = 0;
    for (int64_t i = slots ? s->n_slices : 0; i < s->n_variables; i++) {
        mf_tensor value = { 0 };

        MF_TRY(mf_variable_read(s->variables[i].variable, &value));
        *out += 2 * sizeof(int64_t) + strlen(s->variables[i].name) + 1 + mf_tensor_bytes(&value);
        mf_tensor_clear(&value);
    }
    return MF_OK;
}

static mf_ps_changed *changed_by(const mf_ps_store *s, int gradient, int64_t change)
{
    return &s->changed[gradient * MF_PS_KNOWN_UPDATES + change % MF_PS_KNOWN_UPDATES];
}

/* Of the rows that changed after `changes`. */
static void write_changed_rows(const mf_ps_store *s, const mf_ps_variable *v,
                               const mf_tensor *value, int64_t changes, char *to)
{
    const size_t row = mf_tensor_bytes(value) / (size_t)value->shape.dims[0];

    for (int64_t c = changes; c < s->changes; c++) {
        const mf_ps_changed *x = changed_by(s, v->rows, c);

        for (int64_t i = 0; i < x->n; i++)
            memcpy(to + (size_t)x->ids[i] * row,
                   (const char *)value->data + (size_t)x->ids[i] * row, row);
    }
}

/* Copying all rows in order is faster than copying half of them in any order. */
static bool few_rows_changed(const mf_ps_store *s, const mf_ps_variable *v, const mf_tensor *value,
                             int64_t changes)
{
    int64_t rows = 0;

    if (v->rows < 0 || changes < 0 || s->changes - changes > MF_PS_KNOWN_UPDATES)
        return false;
    for (int64_t c = changes; c < s->changes; c++)
        rows += changed_by(s, v->rows, c)->n;
    return rows < value->shape.dims[0] / 2;
}

static void rewrite_variable(const mf_ps_store *s, const mf_ps_variable *v, const mf_tensor *value,
                             int64_t changes, mf_ps_out *out)
{
    char *to;

    mf_ps_write_variable_head(out, v->name, (int64_t)mf_tensor_bytes(value));
    if (!few_rows_changed(s, v, value, changes))
        mf_ps_out_put(out, value->data, mf_tensor_bytes(value));
    else if ((to = mf_ps_out_room(out, mf_tensor_bytes(value))) != NULL)
        write_changed_rows(s, v, value, changes, to);
}

mf_status mf_ps_store_rewrite(const mf_ps_store *s, bool slots, int64_t changes, mf_ps_out *out)
{
    for (int64_t i = slots ? s->n_slices : 0; i < s->n_variables; i++) {
        mf_tensor value = { 0 };

        MF_TRY(mf_variable_read(s->variables[i].variable, &value));
        rewrite_variable(s, &s->variables[i], &value, changes, out);
        mf_tensor_clear(&value);
    }
    return out->full ? MF_FAIL(MF_INTERNAL, "a slice is larger than it was") : MF_OK;
}

mf_status mf_ps_store_write(const mf_ps_store *s, bool slots, mf_ps_out *out)
{
    return mf_ps_store_rewrite(s, slots, -1, out);
}

static mf_status ps_store_set_variable(mf_variable *v, const char *name, const void *data,
                                       int64_t bytes)
{
    mf_tensor old = { 0 }, value = { 0 };
    mf_status st;

    MF_TRY(mf_variable_read(v, &old));
    st = (int64_t)mf_tensor_bytes(&old) == bytes
             ? mf_tensor_alloc(&value, old.dtype, &old.shape)
             : MF_FAIL(MF_INVALID_ARGUMENT, "%s has %zu bytes here, and %lld were sent", name,
                       mf_tensor_bytes(&old), (long long)bytes);
    if (st == MF_OK) {
        memcpy(value.data, data, (size_t)bytes);
        st = mf_variable_assign(v, &value, true);
    }
    mf_tensor_clear(&value);
    mf_tensor_clear(&old);
    return st;
}

/* What changed is not known: earlier copies are useless. */
static void forget_changed(mf_ps_store *s)
{
    s->changes += MF_PS_KNOWN_UPDATES + 1;
}

mf_status mf_ps_store_read(mf_ps_store *s, mf_ps_reader *in)
{
    const char *name;
    const void *data;
    int64_t bytes;

    forget_changed(s);
    while (mf_ps_read_variable(in, &name, &data, &bytes)) {
        for (int64_t i = 0; i < s->n_variables; i++) {
            if (strcmp(s->variables[i].name, name) == 0)
                MF_TRY(ps_store_set_variable(s->variables[i].variable, name, data, bytes));
        }
    }
    return in->bad ? MF_FAIL(MF_DATA_LOSS, "the variables that were sent are invalid") : MF_OK;
}

/* ---- updates ---- */

enum { CLOCK, RATE, FIRST };

static mf_status name_feeds(mf_ps_store *s)
{
    mf_arena *a = s->model->graph->arena;
    const int n = s->graph.n_gradients;

    s->feeds = mf_calloc(FIRST + 2 * n, sizeof *s->feeds);
    s->values = mf_calloc(FIRST + 2 * n, sizeof *s->values);
    s->changed = mf_calloc(MF_PS_KNOWN_UPDATES * n + 1, sizeof *s->changed);
    if (!s->feeds || !s->values || !s->changed)
        return MF_NOMEM("gradients");
    s->feeds[CLOCK] = "clock:0";
    s->feeds[RATE] = "learning_rate:0";
    s->n_feeds = FIRST + 2 * n;
    for (int i = 0; i < n; i++) {
        s->feeds[FIRST + 2 * i] = mf_arena_printf(a, "gradient/%d:0", i);
        s->feeds[FIRST + 2 * i + 1] = mf_arena_printf(a, "rows/%d:0", i);
        if (!s->feeds[FIRST + 2 * i] || !s->feeds[FIRST + 2 * i + 1])
            return MF_NOMEM("gradients");
    }
    MF_TRY(mf_tensor_alloc(&s->values[CLOCK], MF_DTYPE_I64, &MF_SHAPE(3)));
    return mf_tensor_alloc(&s->values[RATE], MF_DTYPE_F32, &MF_SCALAR);
}

mf_tensor *mf_ps_store_gradient(mf_ps_store *s, int i)
{
    return &s->values[FIRST + 2 * i];
}

mf_tensor *mf_ps_store_rows(mf_ps_store *s, int i)
{
    return &s->values[FIRST + 2 * i + 1];
}

static mf_status note_changed(mf_ps_store *s)
{
    for (int g = 0; g < s->graph.n_gradients; g++) {
        const mf_tensor *rows = mf_ps_store_rows(s, g);
        mf_ps_changed *x = changed_by(s, g, s->changes);

        if (!s->graph.gradients[g].weight->lookups)
            continue;
        MF_TRY(mf_grow(&x->ids, &x->cap, rows->count, sizeof *x->ids));
        x->n = rows->count;
        if (x->n > 0)
            memcpy(x->ids, rows->data, mf_tensor_bytes(rows));
    }
    s->changes++;
    return MF_OK;
}

mf_status mf_ps_store_update(mf_ps_store *s, int64_t step, float learning_rate)
{
    const char *target = mf_node_name(s->graph.train);
    const char **feeds = mf_calloc(s->n_feeds, sizeof *feeds);
    const mf_tensor **values = mf_calloc(s->n_feeds, sizeof(mf_tensor *));
    mf_status st = feeds && values ? MF_OK : MF_NOMEM("gradients");
    int n = 0;

    ((int64_t *)s->values[CLOCK].data)[0] = 0;
    ((int64_t *)s->values[CLOCK].data)[1] = step;
    ((int64_t *)s->values[CLOCK].data)[2] = 0;
    ((float *)s->values[RATE].data)[0] = learning_rate;
    for (int i = 0; st == MF_OK && i < s->n_feeds; i++) {
        const bool absent =
            i >= FIRST && (i - FIRST) % 2 == 1 && !s->graph.gradients[(i - FIRST) / 2].rows.node;

        if (absent)
            continue;
        feeds[n] = s->feeds[i];
        values[n++] = &s->values[i];
    }
    if (st == MF_OK)
        st = mf_session_run(s->session, NULL, feeds, values, n, NULL, 0, &target, 1, NULL);
    mf_free(feeds);
    mf_free(values);
    if (st == MF_OK)
        return note_changed(s);
    forget_changed(s); /* some of them may have changed */
    return st;
}

/* ---- making and freeing ---- */

static mf_status ps_store_start(mf_ps_store *s, const mf_trainer *t)
{
    const mf_session_options session = { .threads = t->options.threads,
                                         .disable = t->options.disable };
    const char *target;

    MF_TRY(mf_model_new(&s->model));
    for (int i = 0; i < s->n_slices; i++)
        MF_TRY(ps_store_add_weight(s->model, &s->slices[i]));
    MF_TRY(mf_step_graph_init(&s->graph, s->model, &t->options, MF_STEP_SERVES));
    MF_TRY(mf_resources_new(&s->resources));
    MF_TRY(mf_session_new_shared(s->model->graph, &session,
                                 &(mf_session_shared){ t->pool, s->resources, NULL }, &s->session));
    MF_TRY(ps_store_list_variables(s));
    MF_TRY(name_feeds(s));
    target = mf_node_name(s->graph.init);
    return mf_session_run(s->session, NULL, NULL, NULL, 0, NULL, 0, &target, 1, NULL);
}

mf_status mf_ps_store_init(mf_ps_store *s, const mf_trainer *t, const mf_placement *place,
                           int server)
{
    mf_status st;

    *s = (mf_ps_store){ .slices = place->slices[server], .n_slices = place->n_slices[server] };
    st = ps_store_start(s, t);
    if (st != MF_OK)
        mf_ps_store_deinit(s);
    return st;
}

void mf_ps_store_deinit(mf_ps_store *s)
{
    for (int64_t i = 0; i < s->n_variables; i++)
        mf_object_unref(&s->variables[i].variable->object);
    for (int i = 0; s->values && i < s->n_feeds; i++)
        mf_tensor_clear(&s->values[i]);
    for (int i = 0; s->changed && i < MF_PS_KNOWN_UPDATES * s->graph.n_gradients; i++)
        mf_free(s->changed[i].ids);
    mf_free(s->changed);
    mf_session_free(s->session);
    mf_resources_free(s->resources);
    if (s->model)
        mf_step_graph_deinit(&s->graph);
    mf_model_free(s->model);
    mf_free(s->variables);
    mf_free(s->feeds);
    mf_free(s->values);
    *s = (mf_ps_store){ 0 };
}
