/* SPDX-License-Identifier: Apache-2.0 */
/* spmd_lower.c - lowers a graph to one graph per local device. Nodes are visited in graph order:
 * each gets its best sharding (op_sharding.c), its inputs are converted to it (reshard.c), and the
 * same op runs on the shards. All devices take the same decisions, so collectives have the same ids
 * everywhere. */
#include "spmd/lower/spmd_lower.h"

#include "base/log.h"
#include "compiler/flow_context.h"

#include <stdio.h>
#include <string.h>

static const mf_layout WHOLE;

static bool spmd_lower_is_op(const mf_node *n, const char *op)
{
    return strcmp(n->op_name, op) == 0;
}

/* ---- one node on one device ---- */

typedef struct emission {
    mf_lowering *l;
    const mf_node *n;
    const mf_split *q; /* NULL: not split */
    const mf_mesh_choice *choice;
    const mf_mesh_version **in;
    int k; /* index of the mesh */
    const mf_mesh *m;
    int i; /* index of the local device */
} emission;

/* Attributes of the copy, with room for attributes that a split rule adds. */
static mf_status spmd_lower_copy_attrs(const emission *e, mf_named_attr **out)
{
    mf_graph *g = e->l->graphs[e->i];
    mf_named_attr *attrs = MF_ARENA_ARRAY(g->arena, mf_named_attr, e->n->n_attrs + MF_SPLIT_ATTRS);

    if (!attrs)
        return MF_NOMEM("a graph");
    for (int k = 0; k < e->n->n_attrs; k++) {
        attrs[k] = e->n->attrs[k];
        if (attrs[k].value.kind == MF_ATTR_TENSOR && !attrs[k].value.is_list &&
            !(attrs[k].value.tensor = mf_graph_own_tensor(g, attrs[k].value.tensor)))
            return MF_NOMEM("a graph");
    }
    *out = attrs;
    return MF_OK;
}

static mf_split_piece letter_piece(const emission *e, int letter)
{
    const mf_layout_dim cut = e->choice->letters[letter];
    int64_t begin, end;

    mf_layout_piece(e->m, cut, e->q->letters[letter].size, e->l->devices[e->i], &begin, &end);
    return (mf_split_piece){ begin, end - begin, cut.axes != 0 };
}

static mf_status fix_attrs(const emission *e, mf_named_attr *attrs, int *n)
{
    mf_graph *g = e->l->graphs[e->i];

    if (mf_mesh_is_variable(e->n)) {
        const mf_mesh_value *v = &e->l->table->values[e->n->id][0];
        const mf_box box = mf_layout_box(e->m, &v->layout, &v->shape, e->l->devices[e->i]);
        mf_shape *shape = MF_ARENA_NEW(g->arena, mf_shape);
        mf_attr *a = mf_split_attr(attrs, e->n->n_attrs, "shape");

        if (!shape || !a)
            return MF_NOMEM("a graph");
        *shape = v->shape;
        for (int d = 0; d < shape->rank; d++)
            shape->dims[d] = v->layout.dims[d].axes ? box.size[d] : shape->dims[d];
        a->shape = shape;
    }
    if (e->q && e->q->fix) {
        mf_split_piece pieces[MF_SPLIT_LETTERS];

        for (int k = 0; k < e->q->n_letters; k++)
            pieces[k] = letter_piece(e, k);
        MF_TRY(e->q->fix(e->q, pieces, attrs, n, g->arena));
    }
    if (e->q && e->q->offset_attr) {
        mf_attr *a = mf_split_attr(attrs, e->n->n_attrs, e->q->offset_attr);

        if (a)
            a->i += letter_piece(e, e->q->offset_letter).begin;
    }
    return MF_OK;
}

/* The input sizes_input holds the sizes of output 0: replace them by those of the shard. */
static mf_status piece_sizes(const emission *e, mf_output *in)
{
    mf_graph *g = e->l->graphs[e->i];
    const mf_tensor *whole = e->q->in_value[e->q->sizes_input];
    const mf_shape *shape = &e->q->out[0];
    const mf_box box = mf_layout_box(e->m, &e->choice->out[0], shape, e->l->devices[e->i]);
    mf_tensor sizes = { 0 };

    if (!whole || whole->count != shape->rank)
        return MF_FAIL(MF_INTERNAL, "{{node %s}}: its sizes are not known", e->n->name);
    MF_TRY(mf_tensor_alloc(&sizes, whole->dtype, &whole->shape));
    for (int d = 0; d < shape->rank; d++) /* even a -1: an empty shard would leave it undefined */
        mf_tensor_put(&sizes, d, (double)box.size[d]);
    in[e->q->sizes_input] = mf_constant(g, &sizes, NULL);
    mf_tensor_clear(&sizes);
    return mf_graph_status(g);
}

static bool index_is_cut(const emission *e)
{
    return e->q && e->q->index_letter >= 0 && e->choice->letters[e->q->index_letter].axes;
}

/* Indices relative to this shard: those outside it become -1, or are dropped with their rows. */
static mf_status piece_indices(const emission *e, mf_output *in)
{
    const int letter = e->q->index_letter, ids = e->q->index_input, rows = e->q->rows_input;
    const mf_split_piece piece = letter_piece(e, letter);
    mf_graph *g = e->l->graphs[e->i];
    const mf_output both[] = { rows >= 0 ? in[rows] : in[ids], in[ids] };
    const mf_named_attr attrs[] = {
        { "begin", { .kind = MF_ATTR_INT, .n = 1, .i = piece.begin } },
        { "size", { .kind = MF_ATTR_INT, .n = 1, .i = piece.size } },
        { "limit",
          { .kind = MF_ATTR_INT,
            .n = 1,
            .i = e->q->index_range == MF_INDEX_ANY ? -1 : e->q->letters[letter].size } },
        { "negative", { .kind = MF_ATTR_BOOL, .n = 1, .b = e->q->index_range != MF_INDEX_INSIDE } },
    };
    const mf_node_spec spec = { .op = rows >= 0 ? "_MeshSelect" : "_MeshIndices",
                                .inputs = both,
                                .n_inputs = rows >= 0 ? 2 : 1,
                                .attrs = attrs,
                                .n_attrs = MF_COUNT(attrs) };
    mf_node *node;

    MF_TRY(mf_graph_add(g, &spec, &node));
    in[ids] = (mf_output){ node, rows >= 0 };
    if (rows >= 0)
        in[rows] = (mf_output){ node, 0 };
    if (e->q->count_input >= 0)
        in[e->q->count_input] = mf_scalar(g, e->n->in_types[e->q->count_input], (double)piece.size);
    return mf_graph_status(g);
}

/* Attributes of the op that op_if_index_cut accepts, too. */
static int row_attrs(mf_named_attr *attrs, int n)
{
    int kept = 0;

    for (int k = 0; k < n; k++) {
        if (strcmp(attrs[k].name, "dtype") == 0)
            attrs[kept++] = attrs[k];
    }
    return kept;
}

static bool sums_are_cut(const emission *e)
{
    for (int k = 0; e->q && k < e->q->n_letters; k++) {
        if (e->q->letters[k].cut != MF_CUT_FREE && e->choice->letters[k].axes)
            return true;
    }
    return false;
}

/* A mean over a split dimension is a sum over the shard, divided by the total count. */
static mf_status spmd_lower_divide(const emission *e, mf_node **node)
{
    mf_graph *g = e->l->graphs[e->i];
    const mf_output in[] = { { *node, 0 },
                             mf_scalar(g, (*node)->out_types[0], (double)e->q->divide_if_cut) };
    const mf_node_spec spec = { .op = "RealDiv", .inputs = in, .n_inputs = 2 };

    MF_TRY(mf_graph_status(g));
    return mf_graph_add(g, &spec, node);
}

/* Control edges of a node without consumers are local: each mesh waits for its own part. */
static bool needs_signal(const mf_lowering *l, const mf_node *n, const mf_node *control, int mesh)
{
    const bool is_last = spmd_lower_is_op(n, "NoOp") && !l->table->is_used[n->id];

    return !is_last && !mf_node_is_constant(control) && !(l->table->where[control->id] >> mesh & 1);
}

static mf_status find_controls(const emission *e, mf_node ***out, int *n)
{
    *n = 0;
    *out = MF_ARENA_ARRAY(e->l->graphs[e->i]->arena, mf_node *, e->n->n_controls + 1);
    if (!*out)
        return MF_NOMEM("a graph");
    for (int k = 0; k < e->n->n_controls; k++) {
        mf_node *c = e->n->controls[k];
        const mf_mesh_version *word;

        if (e->l->copies[c->id][e->i]) {
            (*out)[(*n)++] = e->l->copies[c->id][e->i];
        } else if (needs_signal(e->l, e->n, c, e->k)) {
            MF_TRY(mf_reshard_signal(e->l, c, e->k, &word));
            (*out)[(*n)++] = word->at[e->i].node;
        }
    }
    return MF_OK;
}

static mf_status spmd_lower_emit(const emission *e, mf_node **out)
{
    mf_graph *g = e->l->graphs[e->i];
    mf_output *in = MF_ARENA_ARRAY(g->arena, mf_output, e->n->n_inputs + 1);
    const bool other = sums_are_cut(e) && e->q->op_if_cut;
    mf_node_spec spec = { .name = e->n->name,
                          .op = other ? e->q->op_if_cut : e->n->op_name,
                          .inputs = in,
                          .n_inputs = e->n->n_inputs,
                          .n_attrs = e->n->n_attrs };
    mf_named_attr *attrs;
    mf_node **controls;

    if (!in)
        return MF_NOMEM("a graph");
    for (int k = 0; k < e->n->n_inputs; k++)
        in[k] = e->in[k]->at[e->i];
    MF_TRY(spmd_lower_copy_attrs(e, &attrs));
    MF_TRY(fix_attrs(e, attrs, &spec.n_attrs));
    if (e->q && e->q->sizes_input >= 0 && e->n->n_outputs > 0 &&
        mf_layout_cuts(&e->choice->out[0], e->q->out[0].rank))
        MF_TRY(piece_sizes(e, in));
    if (index_is_cut(e)) {
        MF_TRY(piece_indices(e, in));
        if (e->q->op_if_index_cut) {
            spec.op = e->q->op_if_index_cut;
            spec.n_inputs = 2;
            spec.n_attrs = row_attrs(attrs, spec.n_attrs);
        }
    }
    MF_TRY(find_controls(e, &controls, &spec.n_controls));
    spec.attrs = attrs;
    spec.controls = controls;
    MF_TRY(mf_graph_add(g, &spec, out));
    return other && e->q->divide_if_cut > 0 ? spmd_lower_divide(e, out) : MF_OK;
}

/* ---- one node on all devices ---- */

static bool spmd_lower_is_here(const mf_lowering *l, int mesh, int i)
{
    return mf_mesh_has(&l->table->meshes->at[mesh], l->devices[i]);
}

static mf_status fill_versions(mf_lowering *l, mf_node *n)
{
    l->versions[n->id] = MF_ARENA_ARRAY(l->table->arena, mf_mesh_version *, n->n_outputs + 1);
    l->copies[n->id] = MF_ARENA_ARRAY(l->table->arena, mf_node *, l->n);
    return l->versions[n->id] && l->copies[n->id] ? MF_OK : MF_NOMEM("a graph");
}

static mf_status note_outputs(mf_lowering *l, mf_node *n, int mesh, const mf_layout *layouts)
{
    for (int port = 0; port < n->n_outputs; port++) {
        mf_mesh_version *v;

        MF_TRY(mf_mesh_add_version(l, (mf_output){ n, port }, mesh, &layouts[port], &v));
        for (int i = 0; i < l->n; i++) {
            if (spmd_lower_is_here(l, mesh, i))
                v->at[i] = (mf_output){ l->copies[n->id][i], port };
        }
    }
    return MF_OK;
}

/* Logs "MatMul x: [rows,.] [.,cols] -> [rows,cols]" at debug level. */
static void spmd_lower_explain(const mf_lowering *l, const mf_node *n, const mf_mesh *m,
                               const mf_mesh_choice *c)
{
    char text[MF_LAYOUT_TEXT], shape[MF_SHAPE_TEXT];
    mf_buf line = { 0 };

    for (int k = 0; k < n->n_inputs + n->n_outputs; k++) {
        const bool out = k >= n->n_inputs;
        const int i = out ? k - n->n_inputs : k;
        const mf_mesh_value *v =
            out ? &l->table->values[n->id][i] : mf_mesh_value_of(l->table, n->inputs[i]);

        mf_buf_printf(&line, "%s %s%s", out && i == 0 ? " ->" : "", mf_shape_text(&v->shape, shape),
                      mf_layout_text(m, out ? &c->out[i] : &c->in[i], v->shape.rank, text));
    }
    MF_LOG(MF_LOG_DEBUG, "%s %s, from device %d on:%s", n->op_name, n->name, m->first,
           line.data ? line.data : "");
    mf_buf_deinit(&line);
}

/* ---- costs of the first local device ---- */

/* Product of the dimensions that have no letter. */
static double without_letters(const mf_split_shape *dims, const mf_shape *shape)
{
    double n = 1;

    for (int d = 0; d < shape->rank; d++)
        n *= dims->dims[d].letter < 0 ? (double)shape->dims[d] : 1;
    return n;
}

/* Product of the sizes of all letters, times the largest operand's dimensions without a letter. */
static double spmd_lower_work_of(emission *e)
{
    double n = 1, more = 1;

    e->i = 0;
    for (int k = 0; k < e->q->n_letters; k++)
        n *= (double)letter_piece(e, k).size;
    for (int k = 0; k < e->q->n_in + e->q->n_out; k++) {
        const bool out = k >= e->q->n_in;
        const int i = out ? k - e->q->n_in : k;
        const double x = out ? without_letters(&e->q->out_dims[i], &e->q->out[i])
                             : without_letters(&e->q->in_dims[i], &e->q->in[i]);

        more = x > more ? x : more;
    }
    return n * more;
}

static mf_status note_cost(emission *e)
{
    const mf_lowering *l = e->l;
    mf_mesh_cost *cost;
    double made = 0;

    if (!spmd_lower_is_here(l, e->k, 0))
        return MF_OK;
    cost = mf_mesh_costs_of(l->costs, e->n->op_name);
    if (!cost)
        return MF_NOMEM("costs");
    cost->nodes++;
    for (int i = 0; i < e->n->n_outputs; i++) {
        const mf_mesh_value *v = &l->table->values[e->n->id][i];
        const mf_box box = mf_layout_box(e->m, &e->choice->out[i], &v->shape, l->devices[0]);

        if (v->fixed || !mf_shape_is_static(&v->shape))
            continue;
        made += (double)mf_box_count(&box, v->shape.rank);
        cost->made_bytes += mf_box_count(&box, v->shape.rank) *
                            (int64_t)mf_dtype_cell(mf_type_base(e->n->out_types[i]));
    }
    cost->work += e->q ? spmd_lower_work_of(e) : made;
    return MF_OK;
}

static bool is_forward(const mf_node *n)
{
    return mf_node_micro_batch(n) > 0 && !mf_node_is_gradient(n);
}

/* True if a forward node of a stage needs a value of a later stage. */
static bool needs_later_stage(const mf_lowering *l, const mf_node *n, int mesh)
{
    if (l->table->chunks > 1)
        return false; /* virtual_stages.c detects it for interleaved chunks */
    for (int k = 0; is_forward(n) && k < n->n_inputs; k++) {
        const mf_node *in = n->inputs[k].node;

        if (is_forward(in) && l->table->where[in->id] < (uint64_t)2 << mesh)
            continue;
        if (is_forward(in) && !(l->table->where[in->id] >> mesh & 1))
            return true;
    }
    return false;
}

static mf_status spmd_lower_node(mf_lowering *l, mf_node *n, int mesh)
{
    emission e = {
        .l = l, .n = n, .q = l->table->splits[n->id], .k = mesh, .m = &l->table->meshes->at[mesh]
    };
    mf_mesh_choice choice;

    MF_TRY(mf_mesh_choose(l, n, mesh, &choice));
    if (mf_mesh_is_variable(n))
        choice.out[0] = l->table->values[n->id][0].layout;
    l->costs->returns |= needs_later_stage(l, n, mesh);
    if (mf_log_wants(MF_LOG_DEBUG))
        spmd_lower_explain(l, n, e.m, &choice);
    e.choice = &choice;
    e.in = MF_ARENA_ARRAY(l->table->arena, const mf_mesh_version *, n->n_inputs + 1);
    if (!e.in)
        return MF_NOMEM("a graph");
    for (int k = 0; k < n->n_inputs; k++)
        MF_TRY(choice.windows[k]
                   ? mf_reshard_boxes(l, n->inputs[k], mesh, choice.windows[k], &e.in[k])
                   : mf_reshard(l, n->inputs[k], mesh, &choice.in[k], &e.in[k]));
    for (int k = 0; k < n->n_controls; k++) { /* whichever devices are local */
        const mf_mesh_version *word;

        if (needs_signal(l, n, n->controls[k], mesh))
            MF_TRY(mf_reshard_signal(l, n->controls[k], mesh, &word));
    }
    for (e.i = 0; e.i < l->n; e.i++) {
        if (spmd_lower_is_here(l, mesh, e.i))
            MF_TRY(spmd_lower_emit(&e, &l->copies[n->id][e.i]));
    }
    MF_TRY(note_cost(&e));
    return note_outputs(l, n, mesh, choice.out);
}

/* ---- feeds and fetches ---- */

static mf_status lower_feed(mf_lowering *l, mf_node *n)
{
    mf_shape shape = *mf_node_shape(n, "_shape");
    char name[MF_MESH_END_NAME];
    const mf_named_attr attrs[] = {
        { "dtype", { .kind = MF_ATTR_TYPE, .n = 1, .type = n->out_types[0] } },
        { "shape", { .kind = MF_ATTR_SHAPE, .n = 1, .shape = &shape } },
    };
    const mf_node_spec spec = {
        .name = name, .op = "Placeholder", .attrs = attrs, .n_attrs = MF_COUNT(attrs)
    };

    (void)snprintf(name, sizeof name, MF_MESH_FEED, (int)mf_node_int(n, "index"));
    for (int i = 0; i < l->n; i++)
        MF_TRY(mf_graph_add(l->graphs[i], &spec, &l->copies[n->id][i]));
    for (int k = 0; k < l->table->meshes->n; k++)
        MF_TRY(note_outputs(l, n, k, &WHOLE));
    return MF_OK;
}

static mf_status lower_fetch(mf_lowering *l, mf_node *n, int mesh)
{
    const mf_mesh_version *v;
    char name[MF_MESH_END_NAME];

    (void)snprintf(name, sizeof name, MF_MESH_FETCH, (int)mf_node_int(n, "index"));
    MF_TRY(mf_reshard(l, n->inputs[0], mesh, &WHOLE, &v));
    for (int i = 0; i < l->n; i++) {
        if (!spmd_lower_is_here(l, mesh, i))
            continue;
        const mf_node_spec spec = {
            .name = name, .op = "Identity", .inputs = &v->at[i], .n_inputs = 1
        };

        MF_TRY(mf_graph_add(l->graphs[i], &spec, &l->copies[n->id][i]));
    }
    return MF_OK;
}

static mf_status lower_all(mf_lowering *l)
{
    for (int64_t k = 0; k < l->table->n; k++) {
        mf_node *n = l->table->order[k];

        MF_TRY(fill_versions(l, n));
        if (spmd_lower_is_op(n, "_Arg"))
            MF_TRY(lower_feed(l, n));
        for (int m = 0; m < l->table->meshes->n; m++) {
            if (spmd_lower_is_op(n, "_Retval"))
                MF_TRY(lower_fetch(l, n, m));
            else if (!spmd_lower_is_op(n, "_Arg") && l->table->where[n->id] >> m & 1)
                MF_TRY(spmd_lower_node(l, n, m));
        }
    }
    return MF_OK;
}

/* Number of conditional branches that enclose each node: Switch begins one, Merge ends it. */
static void count_branches(const mf_lowering *l)
{
    for (int64_t i = 0; i < l->table->n; i++) {
        const mf_node *n = l->table->order[i];
        const int kind = n->op ? (int)n->op->control : MF_CONTROL_NONE;
        int most = 0;

        for (int k = 0; k < n->n_inputs; k++)
            most = l->branches[n->inputs[k].node->id] > most ? l->branches[n->inputs[k].node->id]
                                                             : most;
        for (int k = 0; k < n->n_controls; k++)
            most = l->branches[n->controls[k]->id] > most ? l->branches[n->controls[k]->id] : most;
        l->branches[n->id] = kind == MF_CONTROL_SWITCH              ? most + 1
                             : kind == MF_CONTROL_MERGE && most > 0 ? most - 1
                                                                    : most;
    }
}

mf_status mf_mesh_lower(const mf_sharding_table *table, const int *devices, int n,
                        mf_graph **graphs, int64_t *receives, mf_mesh_costs *costs)
{
    mf_lowering l = { .table = table,
                      .devices = devices,
                      .n = n,
                      .graphs = graphs,
                      .receives = receives,
                      .costs = costs };

    l.versions = MF_ARENA_ARRAY(table->arena, mf_mesh_version **, table->c->graph->n_nodes + 1);
    l.copies = MF_ARENA_ARRAY(table->arena, mf_node **, table->c->graph->n_nodes + 1);
    l.signals = MF_ARENA_ARRAY(table->arena, mf_mesh_version *, table->c->graph->n_nodes + 1);
    l.ends = MF_ARENA_ARRAY(table->arena, mf_node *, n);
    l.branches = MF_ARENA_ARRAY(table->arena, int, table->c->graph->n_nodes + 1);
    if (!l.versions || !l.copies || !l.signals || !l.ends || !l.branches)
        return MF_NOMEM("a graph");
    count_branches(&l);
    memset(graphs, 0, (size_t)n * sizeof *graphs);
    memset(receives, 0, (size_t)n * sizeof *receives);
    for (int i = 0; i < n; i++) {
        MF_TRY(mf_graph_new(&graphs[i]));
        mf_graph_scope(graphs[i], "_mesh"); /* scope of new names; copied nodes keep theirs */
    }
    MF_TRY(lower_all(&l));
    costs->together = l.next_id;
    return MF_OK;
}
