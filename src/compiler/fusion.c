/* SPDX-License-Identifier: Apache-2.0 */
/* fusion.c - pass: a tree of elementwise ops of one shape becomes one op that runs tile by tile in
 * cache. If one of its operands is a matrix product or a convolution, the tree becomes the epilogue
 * of that op.
 * Exact: the fused op runs the same loops on the same values. A node joins the tree of its consumer
 * if that is its only use, its shape is that of the tree, and it has no control edges. Small
 * tensors are not fused: the gain would be negligible, and a tree hides its nodes in traces. */
#include "compiler/compiler.h"
#include "compiler/flow_context.h"

#include <string.h>

enum { MAX_STEPS = 32, MAX_INPUTS = 15, MIN_ELEMENTS = 256 };

typedef struct fuser {
    mf_compile *c;
    mf_contexts *contexts;
    int *uses; /* by node id: number of data and control uses */
    mf_node **becomes; /* by node id: the op that replaces this root; NULL: none */
    bool *taken; /* by node id: already part of a tree */
} fuser;

/* A tree under construction. Steps are in execution order, the root last. */
typedef struct tree {
    mf_node *steps[MAX_STEPS];
    int n_steps;
    mf_output inputs[MAX_INPUTS];
    int n_inputs;
    mf_node *first; /* the op whose epilogue the tree is; or NULL */
} tree;

static const mf_shape *fusion_shape_of(const fuser *f, mf_output o)
{
    return &mf_compile_facts(f->c, o.node)->shapes[o.port];
}

static bool has_loop(const fuser *f, const mf_node *n)
{
    mf_dtype last;

    if (!n->op || !mf_node_kernel(n)->loop || n->n_inputs != mf_node_kernel(n)->loop->arity ||
        n->n_outputs != 1 || n->n_controls > 0 || n->def->is_stateful || n->id >= f->c->n_facts)
        return false;
    last = n->in_types[n->n_inputs - 1];
    return mf_dtype_is_valid((int)last) && mf_node_kernel(n)->loop->fn[last] &&
           mf_dtype_is_plain(n->out_types[0]) && !mf_type_is_ref(n->out_types[0]);
}

static bool worth_it(const fuser *f, const mf_node *n)
{
    const mf_shape *s = fusion_shape_of(f, (mf_output){ (mf_node *)(uintptr_t)n, 0 });
    int64_t count;

    return mf_shape_is_static(s) && mf_shape_count(s, &count) == MF_OK && count >= MIN_ELEMENTS;
}

static bool fusion_joins(const fuser *f, const mf_node *p, const mf_node *root)
{
    return has_loop(f, p) && !f->taken[p->id] && f->uses[p->id] == 1 &&
           mf_shape_equal(fusion_shape_of(f, (mf_output){ (mf_node *)(uintptr_t)p, 0 }),
                          fusion_shape_of(f, (mf_output){ (mf_node *)(uintptr_t)root, 0 })) &&
           mf_context_of_node(f->contexts, p) == mf_context_of_node(f->contexts, root);
}

static int input_index(tree *t, mf_output o)
{
    for (int i = 0; i < t->n_inputs; i++) {
        if (t->inputs[i].node == o.node && t->inputs[i].port == o.port)
            return i;
    }
    t->inputs[t->n_inputs] = o; /* fusion_grow() has checked the capacity */
    return t->n_inputs++;
}

/* Grow from the root towards the inputs, breadth-first, within the limits of steps and inputs. */
static void fusion_grow(fuser *f, tree *t, mf_node *root)
{
    mf_node *found[MAX_STEPS];
    int n = 0, leaves;

    found[n++] = root;
    leaves = root->n_inputs;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < found[i]->n_inputs; k++) {
            mf_node *p = found[i]->inputs[k].node;
            const int more = p->n_inputs - 1;

            if (n < MAX_STEPS && leaves + more <= MAX_INPUTS && fusion_joins(f, p, root)) {
                found[n++] = p;
                f->taken[p->id] = true; /* also keeps p from joining twice */
                leaves += more;
            }
        }
    }
    /* Breadth-first order has consumers before producers: reverse it. */
    for (int i = 0; i < n; i++)
        t->steps[i] = found[n - 1 - i];
    t->n_steps = n;
}

static int step_index(const tree *t, const mf_node *n)
{
    for (int i = 0; i < t->n_steps; i++) {
        if (t->steps[i] == n)
            return i;
    }
    return -1;
}

static int uses_in_tree(const tree *t, const mf_node *p)
{
    int n = 0;

    for (int i = 0; i < t->n_steps; i++) {
        for (int k = 0; k < t->steps[i]->n_inputs; k++)
            n += t->steps[i]->inputs[k].node == p;
    }
    return n;
}

/* An op that can have the tree as its epilogue: its result has no other use, and the type and shape
 * of the tree. */
static bool can_be_first(const fuser *f, const tree *t, const mf_node *p)
{
    const mf_node *root = t->steps[t->n_steps - 1];
    const mf_dtype type = root->out_types[0];

    return p->op && mf_node_kernel(p)->flags & MF_OP_THEN && p->n_controls == 0 &&
           !f->taken[p->id] && p->id < f->c->n_facts && p->out_types[0] == type &&
           (type == MF_DTYPE_F32 || type == MF_DTYPE_F64) && f->uses[p->id] == uses_in_tree(t, p) &&
           mf_shape_equal(fusion_shape_of(f, (mf_output){ (mf_node *)(uintptr_t)p, 0 }),
                          fusion_shape_of(f, (mf_output){ (mf_node *)(uintptr_t)root, 0 })) &&
           mf_context_of_node(f->contexts, p) == mf_context_of_node(f->contexts, root) &&
           strcmp(p->device, root->device) == 0;
}

static void find_first(fuser *f, tree *t)
{
    for (int i = 0; i < t->n_steps; i++) {
        for (int k = 0; k < t->steps[i]->n_inputs && !t->first; k++) {
            mf_node *p = t->steps[i]->inputs[k].node;

            if (can_be_first(f, t, p))
                t->first = p;
        }
    }
    if (t->first)
        t->inputs[t->n_inputs++] = (mf_output){ t->first, 0 }; /* operand 0 */
}

/* ---- building ---- */

typedef struct step_attrs {
    mf_attr ops, types, args, params;
} step_attrs;

static mf_status describe_steps(fuser *f, tree *t, step_attrs *a)
{
    mf_arena *arena = f->c->graph->arena;
    const int n = t->n_steps;

    *a = (step_attrs){ { .kind = MF_ATTR_STRING, .is_list = true, .n = n },
                       { .kind = MF_ATTR_TYPE, .is_list = true, .n = n },
                       { .kind = MF_ATTR_INT, .is_list = true },
                       { .kind = MF_ATTR_FLOAT, .is_list = true, .n = n } };
    a->ops.strings = MF_ARENA_ARRAY(arena, mf_bytes, n);
    a->types.ints = MF_ARENA_ARRAY(arena, int64_t, n);
    a->args.ints = MF_ARENA_ARRAY(arena, int64_t, n * 3);
    a->params.floats = MF_ARENA_ARRAY(arena, float, n);
    if (!a->ops.strings || !a->types.ints || !a->args.ints || !a->params.floats)
        return MF_NOMEM("compiling");
    for (int i = 0; i < n; i++) {
        const mf_node *s = t->steps[i];

        a->ops.strings[i] = (mf_bytes){ s->op->name, strlen(s->op->name) };
        a->types.ints[i] = (int64_t)s->out_types[0];
        a->params.floats[i] = mf_node_kernel(s)->loop->param
                                  ? mf_node_float(s, mf_node_kernel(s)->loop->param)
                                  : 0.0f;
        for (int k = 0; k < s->n_inputs; k++) {
            const int step = step_index(t, s->inputs[k].node);

            a->args.ints[a->args.n++] = step >= 0 ? -1 - step : input_index(t, s->inputs[k]);
        }
    }
    return MF_OK;
}

/* The tree alone. */
static mf_status build_fused(fuser *f, tree *t, const step_attrs *a, mf_node **out)
{
    const mf_node *root = t->steps[t->n_steps - 1];
    const mf_named_attr attrs[] = {
        { "ops", a->ops },
        { "types", a->types },
        { "args", a->args },
        { "params", a->params },
        { "Tout", { .kind = MF_ATTR_TYPE, .n = 1, .type = root->out_types[0] } },
    };
    const mf_node_spec spec = { .op = "_Fused",
                                .name = mf_graph_unique_name(f->c->graph, root->name),
                                .device = root->device,
                                .inputs = t->inputs,
                                .n_inputs = t->n_inputs,
                                .attrs = attrs,
                                .n_attrs = MF_COUNT(attrs) };

    return mf_graph_add(f->c->graph, &spec, out);
}

/* The tree after an op: that op's inputs and attributes, then the tree's. */
static mf_status build_then(fuser *f, tree *t, const step_attrs *a, mf_node **out)
{
    const mf_node *root = t->steps[t->n_steps - 1], *first = t->first;
    mf_arena *arena = f->c->graph->arena;
    const int n_in = first->n_inputs + t->n_inputs - 1;
    mf_output *inputs = MF_ARENA_ARRAY(arena, mf_output, n_in);
    mf_named_attr *attrs = MF_ARENA_ARRAY(arena, mf_named_attr, first->n_attrs + 4);
    mf_node_spec spec = { .device = root->device, .n_inputs = n_in };

    if (!inputs || !attrs)
        return MF_NOMEM("compiling");
    memcpy(inputs, first->inputs, (size_t)first->n_inputs * sizeof *inputs);
    memcpy(inputs + first->n_inputs, t->inputs + 1, (size_t)(t->n_inputs - 1) * sizeof *inputs);
    memcpy(attrs, first->attrs, (size_t)first->n_attrs * sizeof *attrs);
    spec.n_attrs = first->n_attrs;
    attrs[spec.n_attrs++] = (mf_named_attr){ "ops", a->ops };
    attrs[spec.n_attrs++] = (mf_named_attr){ "types", a->types };
    attrs[spec.n_attrs++] = (mf_named_attr){ "args", a->args };
    attrs[spec.n_attrs++] = (mf_named_attr){ "params", a->params };
    spec.op = mf_arena_printf(arena, "_%sThen", first->op->name);
    spec.name = mf_graph_unique_name(f->c->graph, root->name);
    spec.inputs = inputs;
    spec.attrs = attrs;
    if (!spec.op)
        return MF_NOMEM("compiling");
    return mf_graph_add(f->c->graph, &spec, out);
}

static mf_status fusion_build(fuser *f, tree *t, mf_node **out)
{
    step_attrs a;

    MF_TRY(describe_steps(f, t, &a));
    return t->first ? build_then(f, t, &a, out) : build_fused(f, t, &a, out);
}

static void count_uses(const fuser *f)
{
    for (int64_t i = 0; i < f->c->graph->n_nodes; i++) {
        const mf_node *n = f->c->graph->nodes[i];

        for (int k = 0; k < n->n_inputs && !n->removed; k++)
            f->uses[n->inputs[k].node->id]++;
        for (int k = 0; k < n->n_controls && !n->removed; k++)
            f->uses[n->controls[k]->id] += 2; /* control consumers keep it as a node */
    }
    for (int i = 0; i < f->c->n_targets; i++)
        f->uses[f->c->targets[i]->id] += 2;
}

static mf_status fuse_all(fuser *f, mf_node *const *order, int64_t n, mf_subst *s)
{
    for (int64_t i = n - 1; i >= 0; i--) {
        mf_node *root = order[i], *node;
        tree t = { 0 };

        if (f->taken[root->id] || !has_loop(f, root) || !worth_it(f, root))
            continue;
        fusion_grow(f, &t, root);
        find_first(f, &t);
        if (t.n_steps < 2 && !t.first)
            continue;
        f->taken[root->id] = true;
        if (t.first)
            f->taken[t.first->id] = true;
        MF_TRY(fusion_build(f, &t, &node));
        f->becomes[root->id] = node;
        MF_TRY(mf_subst_add(s, f->c, (mf_output){ root, 0 }, (mf_output){ node, 0 }));
    }
    return MF_OK;
}

/* Control edges from a root are redirected to its replacement: otherwise both would be computed. */
static void wait_for_fused(const fuser *f, int64_t n_nodes)
{
    for (int64_t i = 0; i < n_nodes; i++) {
        mf_node *n = f->c->graph->nodes[i];

        for (int k = 0; k < n->n_controls; k++) {
            mf_node *to = f->becomes[n->controls[k]->id];

            n->controls[k] = to ? to : n->controls[k];
        }
    }
    for (int i = 0; i < f->c->n_targets; i++) {
        mf_node *to = f->becomes[f->c->targets[i]->id];

        f->c->targets[i] = to ? to : f->c->targets[i];
    }
}

mf_status mf_pass_fuse(mf_compile *c)
{
    const int64_t n_nodes = c->graph->n_nodes;
    fuser f = { .c = c };
    mf_node **order = NULL;
    mf_subst s = { 0 };
    int64_t n;
    mf_status st = mf_infer_graph(c);

    f.uses = mf_calloc(c->graph->n_nodes, sizeof *f.uses);
    f.taken = mf_calloc(c->graph->n_nodes, sizeof *f.taken);
    f.becomes = mf_calloc(c->graph->n_nodes, sizeof *f.becomes);
    if (st == MF_OK && (!f.uses || !f.taken || !f.becomes))
        st = MF_NOMEM("compiling");
    if (st == MF_OK)
        st = mf_compile_order(c, &order, &n);
    if (st == MF_OK)
        st = mf_contexts_new(c, order, n, &f.contexts);
    if (st == MF_OK)
        st = mf_subst_init(&s, c);
    if (st == MF_OK) {
        count_uses(&f);
        st = fuse_all(&f, order, n, &s);
    }
    if (st == MF_OK) {
        wait_for_fused(&f, n_nodes);
        st = mf_subst_apply(&s, c);
    }
    mf_subst_deinit(&s);
    mf_contexts_free(f.contexts);
    mf_free(order);
    mf_free(f.uses);
    mf_free(f.taken);
    mf_free(f.becomes);
    return st;
}
