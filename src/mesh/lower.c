/* SPDX-License-Identifier: Apache-2.0 */
/* lower.c - a graph becomes one for each processor at hand. Nodes come in the order of the graph;
 * each is cut in the best way (choose.c), its inputs are laid out as that needs (deliver.c), and
 * the very op runs on the pieces. All processors come to the same decisions, so what they do
 * together has the same numbers everywhere. */
#include "mesh/lower.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

static const mf_layout WHOLE;

static bool is_op(const mf_node *n, const char *op)
{
    return strcmp(n->op_name, op) == 0;
}

/* ---- one node on one processor ---- */

typedef struct emission {
    mf_lowering *l;
    const mf_node *n;
    const mf_split *q; /* NULL: whole */
    const mf_mesh_choice *choice;
    const mf_mesh_version **in;
    int i; /* the processor at hand */
} emission;

/* Attributes of the copy; room for one that is changed. */
static mf_status copy_attrs(const emission *e, mf_named_attr **out)
{
    mf_graph *g = e->l->graphs[e->i];
    mf_named_attr *attrs = MF_ARENA_ARRAY(g->arena, mf_named_attr, e->n->n_attrs + 1);

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

static mf_named_attr *attr_named(mf_named_attr *attrs, int n, const char *name)
{
    for (int k = 0; k < n; k++) {
        if (strcmp(attrs[k].name, name) == 0)
            return &attrs[k];
    }
    return NULL;
}

static int64_t letter_begin(const emission *e, int letter)
{
    int64_t begin, end;

    mf_layout_piece(e->l->sheet->mesh, e->choice->letters[letter], e->q->letters[letter].size,
                    e->l->processors[e->i], &begin, &end);
    return begin;
}

static int64_t letter_size(const emission *e, int letter)
{
    int64_t begin, end;

    mf_layout_piece(e->l->sheet->mesh, e->choice->letters[letter], e->q->letters[letter].size,
                    e->l->processors[e->i], &begin, &end);
    return end - begin;
}

static mf_status fix_attrs(const emission *e, mf_named_attr *attrs)
{
    mf_graph *g = e->l->graphs[e->i];

    if (is_op(e->n, "VarHandleOp")) {
        const mf_mesh_value *v = &e->l->sheet->values[e->n->id][0];
        const mf_box box =
            mf_layout_box(e->l->sheet->mesh, &v->layout, &v->shape, e->l->processors[e->i]);
        mf_shape *shape = MF_ARENA_NEW(g->arena, mf_shape);
        mf_named_attr *a = attr_named(attrs, e->n->n_attrs, "shape");

        if (!shape || !a)
            return MF_NOMEM("a graph");
        *shape = v->shape;
        for (int d = 0; d < shape->rank; d++)
            shape->dims[d] = v->layout.dims[d].axes ? box.size[d] : shape->dims[d];
        a->value.shape = shape;
    }
    if (e->q && e->q->fix) {
        mf_split_piece pieces[MF_SPLIT_LETTERS];

        for (int k = 0; k < e->q->n_letters; k++)
            pieces[k] = (mf_split_piece){ letter_begin(e, k), letter_size(e, k),
                                          e->choice->letters[k].axes != 0 };
        MF_TRY(e->q->fix(e->q, pieces, attrs, e->n->n_attrs, g->arena));
    }
    if (e->q && e->q->offset_attr) {
        mf_named_attr *a = attr_named(attrs, e->n->n_attrs, e->q->offset_attr);

        if (a)
            a->value.i += letter_begin(e, e->q->offset_letter);
    }
    return MF_OK;
}

/* Input sizes_input: what it says of output 0, for the piece. */
static mf_status piece_sizes(const emission *e, mf_output *in)
{
    mf_graph *g = e->l->graphs[e->i];
    const mf_tensor *whole = e->q->in_value[e->q->sizes_input];
    const mf_shape *shape = &e->q->out[0];
    const mf_box box =
        mf_layout_box(e->l->sheet->mesh, &e->choice->out[0], shape, e->l->processors[e->i]);
    mf_tensor sizes = { 0 };

    if (!whole || whole->count != shape->rank)
        return MF_FAIL(MF_INTERNAL, "{{node %s}}: its sizes are not known", e->n->name);
    MF_TRY(mf_tensor_alloc(&sizes, whole->dtype, &whole->shape));
    for (int d = 0; d < shape->rank; d++) {
        const bool cut = e->choice->out[0].dims[d].axes != 0;

        mf_tensor_put(&sizes, d, cut ? (double)box.size[d] : (double)mf_tensor_int_at(whole, d));
    }
    in[e->q->sizes_input] = mf_constant(g, &sizes, NULL);
    mf_tensor_clear(&sizes);
    return mf_graph_status(g);
}

static bool index_is_cut(const emission *e)
{
    return e->q && e->q->index_letter >= 0 && e->choice->letters[e->q->index_letter].axes;
}

/* Indices as they count in this piece: those outside of it are -1, or left out with their rows. */
static mf_status piece_indices(const emission *e, mf_output *in)
{
    const int letter = e->q->index_letter, ids = e->q->index_input, rows = e->q->rows_input;
    mf_graph *g = e->l->graphs[e->i];
    const mf_output both[] = { rows >= 0 ? in[rows] : in[ids], in[ids] };
    const mf_named_attr attrs[] = {
        { "begin", { .kind = MF_ATTR_INT, .n = 1, .i = letter_begin(e, letter) } },
        { "size", { .kind = MF_ATTR_INT, .n = 1, .i = letter_size(e, letter) } },
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
        in[e->q->count_input] =
            mf_scalar(g, e->n->in_types[e->q->count_input], (double)letter_size(e, letter));
    return mf_graph_status(g);
}

/* What op_if_index_cut has of the op's attributes. */
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

/* What was a mean is a sum of pieces, divided by the number of all. */
static mf_status divide(const emission *e, mf_node **node)
{
    mf_graph *g = e->l->graphs[e->i];
    const mf_output in[] = { { *node, 0 },
                             mf_scalar(g, (*node)->out_types[0], (double)e->q->divide_if_cut) };
    const mf_node_spec spec = { .op = "RealDiv", .inputs = in, .n_inputs = 2 };

    MF_TRY(mf_graph_status(g));
    return mf_graph_add(g, &spec, node);
}

static mf_status find_controls(const emission *e, mf_node ***out)
{
    *out = MF_ARENA_ARRAY(e->l->graphs[e->i]->arena, mf_node *, e->n->n_controls + 1);
    if (!*out)
        return MF_NOMEM("a graph");
    for (int k = 0; k < e->n->n_controls; k++)
        (*out)[k] = e->l->twins[e->n->controls[k]->id][e->i];
    return MF_OK;
}

static mf_status emit(const emission *e, mf_node **out)
{
    mf_graph *g = e->l->graphs[e->i];
    mf_output *in = MF_ARENA_ARRAY(g->arena, mf_output, e->n->n_inputs + 1);
    const bool other = sums_are_cut(e) && e->q->op_if_cut;
    mf_node_spec spec = { .name = e->n->name,
                          .op = other ? e->q->op_if_cut : e->n->op_name,
                          .inputs = in,
                          .n_inputs = e->n->n_inputs,
                          .n_controls = e->n->n_controls,
                          .n_attrs = e->n->n_attrs };
    mf_named_attr *attrs;
    mf_node **controls;

    if (!in)
        return MF_NOMEM("a graph");
    for (int k = 0; k < e->n->n_inputs; k++)
        in[k] = e->in[k]->at[e->i];
    MF_TRY(copy_attrs(e, &attrs));
    MF_TRY(fix_attrs(e, attrs));
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
    MF_TRY(find_controls(e, &controls));
    spec.attrs = attrs;
    spec.controls = controls;
    MF_TRY(mf_graph_add(g, &spec, out));
    return other && e->q->divide_if_cut > 0 ? divide(e, out) : MF_OK;
}

/* ---- one node everywhere ---- */

static mf_status fill_versions(mf_lowering *l, mf_node *n)
{
    l->versions[n->id] = MF_ARENA_ARRAY(l->sheet->arena, mf_mesh_version *, n->n_outputs + 1);
    l->twins[n->id] = MF_ARENA_ARRAY(l->sheet->arena, mf_node *, l->n);
    return l->versions[n->id] && l->twins[n->id] ? MF_OK : MF_NOMEM("a graph");
}

static mf_status note_outputs(mf_lowering *l, mf_node *n, const mf_layout *layouts)
{
    for (int port = 0; port < n->n_outputs; port++) {
        mf_mesh_version *v;

        MF_TRY(mf_mesh_made(l, (mf_output){ n, port }, &layouts[port], &v));
        for (int i = 0; i < l->n; i++)
            v->at[i] = (mf_output){ l->twins[n->id][i], port };
    }
    return MF_OK;
}

/* "MatMul x: [rows,.] [.,cols] -> [rows,cols]", for those who want to know. */
static void explain(const mf_lowering *l, const mf_node *n, const mf_mesh_choice *c)
{
    char text[MF_LAYOUT_TEXT], shape[MF_SHAPE_TEXT];
    mf_buf line = { 0 };

    for (int k = 0; k < n->n_inputs + n->n_outputs; k++) {
        const bool out = k >= n->n_inputs;
        const int i = out ? k - n->n_inputs : k;
        const mf_mesh_value *v =
            out ? &l->sheet->values[n->id][i] : mf_mesh_value_of(l->sheet, n->inputs[i]);

        mf_buf_printf(
            &line, "%s %s%s", out && i == 0 ? " ->" : "", mf_shape_text(&v->shape, shape),
            mf_layout_text(l->sheet->mesh, out ? &c->out[i] : &c->in[i], v->shape.rank, text));
    }
    MF_LOG(MF_LOG_DEBUG, "%s %s:%s", n->op_name, n->name, line.data ? line.data : "");
    mf_buf_deinit(&line);
}

/* ---- what it costs the first processor at hand ---- */

/* Elements of the dimensions that have no letter. */
static double without_letters(const mf_split_shape *dims, const mf_shape *shape)
{
    double n = 1;

    for (int d = 0; d < shape->rank; d++)
        n *= dims->dims[d].letter < 0 ? (double)shape->dims[d] : 1;
    return n;
}

/* All indices of the letters, each with what the largest operand has besides. */
static double work_of(emission *e)
{
    double n = 1, more = 1;

    e->i = 0;
    for (int k = 0; k < e->q->n_letters; k++)
        n *= (double)letter_size(e, k);
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
    mf_mesh_cost *cost = mf_mesh_costs_of(l->costs, e->n->op_name);
    double made = 0;

    if (!cost)
        return MF_NOMEM("costs");
    cost->nodes++;
    for (int i = 0; i < e->n->n_outputs; i++) {
        const mf_mesh_value *v = &l->sheet->values[e->n->id][i];
        const mf_box box =
            mf_layout_box(l->sheet->mesh, &e->choice->out[i], &v->shape, l->processors[0]);

        if (v->fixed || !mf_shape_is_static(&v->shape))
            continue;
        made += (double)mf_box_count(&box, v->shape.rank);
        cost->made_bytes += mf_box_count(&box, v->shape.rank) *
                            (int64_t)mf_dtype_cell(mf_type_base(e->n->out_types[i]));
    }
    cost->work += e->q ? work_of(e) : made;
    return MF_OK;
}

static mf_status lower_node(mf_lowering *l, mf_node *n)
{
    emission e = { .l = l, .n = n, .q = l->sheet->splits[n->id] };
    mf_mesh_choice choice;

    MF_TRY(mf_mesh_choose(l, n, &choice));
    if (is_op(n, "VarHandleOp"))
        choice.out[0] = l->sheet->values[n->id][0].layout;
    if (mf_log_wants(MF_LOG_DEBUG))
        explain(l, n, &choice);
    e.choice = &choice;
    e.in = MF_ARENA_ARRAY(l->sheet->arena, const mf_mesh_version *, n->n_inputs + 1);
    if (!e.in)
        return MF_NOMEM("a graph");
    for (int k = 0; k < n->n_inputs; k++)
        MF_TRY(choice.windows[k]
                   ? mf_mesh_deliver_boxes(l, n->inputs[k], choice.windows[k], &e.in[k])
                   : mf_mesh_deliver(l, n->inputs[k], &choice.in[k], &e.in[k]));
    for (e.i = 0; e.i < l->n; e.i++)
        MF_TRY(emit(&e, &l->twins[n->id][e.i]));
    MF_TRY(note_cost(&e));
    return note_outputs(l, n, choice.out);
}

/* ---- ends ---- */

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
        MF_TRY(mf_graph_add(l->graphs[i], &spec, &l->twins[n->id][i]));
    return note_outputs(l, n, &WHOLE);
}

static mf_status lower_fetch(mf_lowering *l, mf_node *n)
{
    const mf_mesh_version *v;
    char name[MF_MESH_END_NAME];

    (void)snprintf(name, sizeof name, MF_MESH_FETCH, (int)mf_node_int(n, "index"));
    MF_TRY(mf_mesh_deliver(l, n->inputs[0], &WHOLE, &v));
    for (int i = 0; i < l->n; i++) {
        const mf_node_spec spec = {
            .name = name, .op = "Identity", .inputs = &v->at[i], .n_inputs = 1
        };

        MF_TRY(mf_graph_add(l->graphs[i], &spec, &l->twins[n->id][i]));
    }
    return MF_OK;
}

static mf_status lower_all(mf_lowering *l)
{
    for (int64_t k = 0; k < l->sheet->n; k++) {
        mf_node *n = l->sheet->order[k];

        MF_TRY(fill_versions(l, n));
        if (is_op(n, "_Arg"))
            MF_TRY(lower_feed(l, n));
        else if (is_op(n, "_Retval"))
            MF_TRY(lower_fetch(l, n));
        else
            MF_TRY(lower_node(l, n));
    }
    return MF_OK;
}

mf_status mf_mesh_lower(const mf_mesh_sheet *sheet, const int *processors, int n, mf_graph **graphs,
                        int64_t *receives, mf_mesh_costs *costs)
{
    mf_lowering l = { .sheet = sheet,
                      .processors = processors,
                      .n = n,
                      .graphs = graphs,
                      .receives = receives,
                      .costs = costs };

    l.versions = MF_ARENA_ARRAY(sheet->arena, mf_mesh_version **, sheet->c->graph->n_nodes + 1);
    l.twins = MF_ARENA_ARRAY(sheet->arena, mf_node **, sheet->c->graph->n_nodes + 1);
    if (!l.versions || !l.twins)
        return MF_NOMEM("a graph");
    memset(graphs, 0, (size_t)n * sizeof *graphs);
    memset(receives, 0, (size_t)n * sizeof *receives);
    for (int i = 0; i < n; i++) {
        MF_TRY(mf_graph_new(&graphs[i]));
        mf_graph_scope(graphs[i], "_mesh"); /* of new names: the others keep theirs */
    }
    return lower_all(&l);
}
