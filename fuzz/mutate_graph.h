/* SPDX-License-Identifier: Apache-2.0 */
/* mutate_graph.h - mutates a GraphDef into another one: libFuzzer's own mutations of bytes seldom
 * produce a
 * graph that parses. Nodes get other inputs, repeated inputs, other attributes, other ops; they are
 * duplicated and removed. Only for programs built with libFuzzer. */
#ifndef MF_FUZZ_MUTATE_GRAPH_H
#define MF_FUZZ_MUTATE_GRAPH_H

#include "graph/op.h"
#include "proto/graph.pb-c.h"
#include "proto/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MUTATE_COPIES = 40 };

static const int64_t mutate_numbers[] = { -1,        0,         1,         2,         3,
                                          4,         7,         16,        64,        255,
                                          256,       65536,     INT32_MAX, INT32_MIN, INT64_MAX,
                                          INT64_MIN, 1LL << 32, 1LL << 40, 1LL << 62 };

typedef struct mutation {
    Tensorflow__GraphDef *g;
    mf_arena *arena;
    uint64_t state;
} mutation;

static inline size_t mutate_draw(mutation *m, size_t n)
{
    m->state = m->state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)((m->state >> 33) % n);
}

static inline int64_t mutate_number(mutation *m)
{
    return mutate_numbers[mutate_draw(m, MF_COUNT(mutate_numbers))];
}

static inline Tensorflow__NodeDef *mutate_any(mutation *m)
{
    return m->g->node[mutate_draw(m, m->g->n_node)];
}

/* ---- inputs ---- */

static inline char *mutate_input(mutation *m)
{
    const char *name = mutate_any(m)->name;

    switch (mutate_draw(m, 8)) {
    case 0:
        return mf_arena_printf(m->arena, "%s:%d", name, (int)mutate_draw(m, 3));
    case 1:
        return mf_arena_printf(m->arena, "^%s", name);
    default:
        return mf_arena_strdup(m->arena, name);
    }
}

/* The node's inputs with `n` more copies of the one at `at`. */
static inline void mutate_repeat(mutation *m, Tensorflow__NodeDef *node, size_t at, size_t n)
{
    char **in = MF_ARENA_ARRAY(m->arena, char *, (int64_t)(node->n_input + n));
    size_t to = 0;

    for (size_t i = 0; in && i < node->n_input; i++) {
        for (size_t k = 0; k < (i == at ? n + 1 : 1); k++)
            in[to++] = node->input[i];
    }
    if (!in)
        return;
    node->input = in;
    node->n_input = to;
    for (size_t i = 0; i < node->n_attr; i++) { /* an attribute usually has the number of inputs */
        Tensorflow__AttrValue *v = node->attr[i]->value;

        if (v && v->value_case == TENSORFLOW__ATTR_VALUE__VALUE_I && mutate_draw(m, 4) > 0)
            v->i = (int64_t)to;
    }
}

static inline void mutate_inputs(mutation *m, Tensorflow__NodeDef *node)
{
    size_t at;

    if (node->n_input == 0)
        return;
    at = mutate_draw(m, node->n_input);
    switch (mutate_draw(m, 4)) {
    case 0:
        mutate_repeat(m, node, at, 1 + mutate_draw(m, MUTATE_COPIES));
        break;
    case 1:
        node->input[at] = node->input[mutate_draw(m, node->n_input)];
        break;
    default:
        node->input[at] = mutate_input(m);
    }
}

/* ---- attributes ---- */

static inline void mutate_shape(mutation *m, Tensorflow__TensorShapeProto *s)
{
    if (s && s->n_dim > 0)
        s->dim[mutate_draw(m, s->n_dim)]->size = mutate_number(m);
    else if (s)
        s->unknown_rank = !s->unknown_rank;
}

static inline void mutate_tensor(mutation *m, Tensorflow__TensorProto *t)
{
    uint64_t bits = (uint64_t)mutate_number(m);
    size_t at;

    if (!t)
        return;
    if (t->n_int_val > 0) {
        t->int_val[mutate_draw(m, t->n_int_val)] = (int32_t)mutate_number(m);
    } else if (t->n_int64_val > 0) {
        t->int64_val[mutate_draw(m, t->n_int64_val)] = mutate_number(m);
    } else if (t->n_float_val > 0) {
        t->float_val[mutate_draw(m, t->n_float_val)] = (float)bits;
    } else if (t->tensor_content.len >= 8 && mutate_draw(m, 4) > 0) {
        at = mutate_draw(m, t->tensor_content.len / 4 - 1) * 4;
        if (mutate_draw(m, 2))
            bits = 0x7ff800007fc00000; /* NaN, as float and as double */
        memcpy(t->tensor_content.data + at, &bits, mutate_draw(m, 2) ? 4 : 8);
    } else {
        mutate_shape(m, t->tensor_shape);
    }
}

static inline void mutate_list(mutation *m, Tensorflow__AttrValue__ListValue *l)
{
    if (!l)
        return;
    if (l->n_i > 0)
        l->i[mutate_draw(m, l->n_i)] = mutate_number(m);
    if (l->n_shape > 0)
        mutate_shape(m, l->shape[mutate_draw(m, l->n_shape)]);
    if (mutate_draw(m, 3) > 0)
        return;
    l->n_i -= l->n_i > 0; /* shorter */
    l->n_type -= l->n_type > 0;
    l->n_shape -= l->n_shape > 0;
    l->n_s -= l->n_s > 0;
}

static inline void mutate_attr(mutation *m, Tensorflow__NodeDef *node)
{
    Tensorflow__AttrValue *v;

    if (node->n_attr == 0)
        return;
    v = node->attr[mutate_draw(m, node->n_attr)]->value;
    switch (v ? v->value_case : TENSORFLOW__ATTR_VALUE__VALUE__NOT_SET) {
    case TENSORFLOW__ATTR_VALUE__VALUE_I:
        v->i = mutate_number(m);
        break;
    case TENSORFLOW__ATTR_VALUE__VALUE_F:
        v->f = (float)mutate_number(m);
        break;
    case TENSORFLOW__ATTR_VALUE__VALUE_B:
        v->b = !v->b;
        break;
    case TENSORFLOW__ATTR_VALUE__VALUE_TYPE:
        v->type = (int32_t)mutate_draw(m, 24) + (mutate_draw(m, 8) == 0 ? MF_DTYPE_REF : 0);
        break;
    case TENSORFLOW__ATTR_VALUE__VALUE_SHAPE:
        mutate_shape(m, v->shape);
        break;
    case TENSORFLOW__ATTR_VALUE__VALUE_TENSOR:
        mutate_tensor(m, v->tensor);
        break;
    case TENSORFLOW__ATTR_VALUE__VALUE_LIST:
        mutate_list(m, v->list);
        break;
    default:
        break;
    }
}

/* An attribute of another node, under its name or under one of this node's. */
static inline void mutate_take_attr(mutation *m, Tensorflow__NodeDef *node)
{
    const Tensorflow__NodeDef *other = mutate_any(m);
    Tensorflow__AttrEntry **attr, *one;

    if (other->n_attr == 0)
        return;
    one = other->attr[mutate_draw(m, other->n_attr)];
    if (node->n_attr > 0 && mutate_draw(m, 2)) {
        node->attr[mutate_draw(m, node->n_attr)]->value = one->value;
        return;
    }
    attr = MF_ARENA_ARRAY(m->arena, Tensorflow__AttrEntry *, (int64_t)node->n_attr + 1);
    if (!attr)
        return;
    if (node->n_attr > 0)
        memcpy(attr, node->attr, node->n_attr * sizeof *attr);
    attr[node->n_attr++] = one;
    node->attr = attr;
}

/* ---- nodes ---- */

static inline void mutate_op(mutation *m, Tensorflow__NodeDef *node)
{
    int n;
    const mf_op *const *ops = mf_op_all(&n);

    node->op = mutate_draw(m, 2) ? mutate_any(m)->op
                                 : mf_arena_strdup(m->arena, ops[mutate_draw(m, (size_t)n)]->name);
    for (size_t i = mutate_draw(m, 2) ? node->n_attr : 0; i < node->n_attr; i++) {
        if (mutate_draw(m, 2))
            node->attr[i] = node->attr[--node->n_attr];
    }
}

static inline void mutate_double(mutation *m, const Tensorflow__NodeDef *node)
{
    const size_t n = m->g->n_node;
    Tensorflow__NodeDef **all = MF_ARENA_ARRAY(m->arena, Tensorflow__NodeDef *, (int64_t)n + 1);
    Tensorflow__NodeDef *copy = MF_ARENA_NEW(m->arena, Tensorflow__NodeDef);

    if (!all || !copy)
        return;
    memcpy(all, m->g->node, n * sizeof *all);
    *copy = *node;
    copy->name = mf_arena_printf(m->arena, "%.40s_%d", node->name, (int)mutate_draw(m, 1000));
    copy->input = MF_ARENA_ARRAY(m->arena, char *, (int64_t)node->n_input + 1);
    if (!copy->input || !copy->name)
        return;
    if (node->n_input > 0)
        memcpy(copy->input, node->input, node->n_input * sizeof *copy->input);
    all[n] = copy;
    m->g->node = all;
    m->g->n_node++;
}

static inline void mutate_once(mutation *m)
{
    Tensorflow__NodeDef *node = mutate_any(m);

    switch (mutate_draw(m, 12)) {
    case 0:
        mutate_double(m, node);
        break;
    case 1:
        mutate_op(m, node);
        break;
    case 2:
        mutate_take_attr(m, node);
        break;
    case 3:
        if (m->g->n_node > 1)
            m->g->node[mutate_draw(m, m->g->n_node)] = m->g->node[m->g->n_node - 1];
        m->g->n_node -= m->g->n_node > 1;
        break;
    case 4:
    case 5:
    case 6:
        mutate_inputs(m, node);
        break;
    default:
        mutate_attr(m, node);
    }
}

/* data: size bytes of at most `most`. Returns the new size; 0: not a graph. */
static inline size_t mutate_graph(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    mutation m = { .arena = mf_arena_new(), .state = seed };
    ProtobufCMessage *message;
    mf_buf out = { 0 };
    size_t n = 0;

    if (m.arena && mf_wire_decode(&tensorflow__graph_def__descriptor, data, size, NULL, m.arena,
                                  &message) == MF_OK) {
        m.g = (Tensorflow__GraphDef *)message;
        for (size_t k = 1 + mutate_draw(&m, 4); k > 0 && m.g->n_node > 0; k--)
            mutate_once(&m);
        if (m.g->n_node > 0 && mf_wire_encode(message, &out) == MF_OK && out.len <= most) {
            n = out.len;
            memcpy(data, out.data, n);
        }
    }
    mf_buf_deinit(&out);
    mf_arena_free(m.arena);
    return n;
}

#endif
