/* SPDX-License-Identifier: Apache-2.0 */
/* frames.c - state of a step with control flow: loop frames, iterations, arrived and dead tokens.
 */
#include "runtime/frames.h"

#include <string.h>

/* ---- memory: frames and iterations are reused from run to run ---- */

static mf_iteration *iteration_new(mf_frames *f, mf_loop_frame *frame)
{
    const mf_frame_def *def = &f->program->frames[frame->def];
    mf_iteration *it = f->free_iterations[frame->def];

    if (it) {
        f->free_iterations[frame->def] = it->next;
    } else {
        it = mf_calloc(1, sizeof *it);
        if (!it)
            return NULL;
        it->slots = mf_calloc(def->n_slots, sizeof *it->slots);
        it->cells = mf_calloc(def->n_items, sizeof *it->cells);
        if (!it->slots || !it->cells) {
            mf_free(it->slots);
            mf_free(it->cells);
            mf_free(it);
            return NULL;
        }
    }
    memcpy(it->cells, def->cells, (size_t)def->n_items * sizeof *it->cells);
    it->frame = frame;
    it->number = frame->made++;
    it->outstanding = it->children = 0;
    it->next = NULL;
    if (frame->last)
        frame->last->next = it;
    else
        frame->first = it;
    frame->last = it;
    frame->alive++;
    return it;
}

static void iteration_free(mf_frames *f, mf_iteration *it)
{
    const mf_frame_def *def = &f->program->frames[it->frame->def];

    for (int i = 0; i < def->n_slots; i++)
        mf_tensor_clear(&it->slots[i]);
    it->next = f->free_iterations[it->frame->def];
    f->free_iterations[it->frame->def] = it;
}

static void tokens_clear(mf_token_list *l)
{
    for (int64_t i = 0; i < l->n; i++)
        mf_tensor_clear(&l->tokens[i].tensor);
    l->n = 0;
}

static uint64_t hash_combine(uint64_t a, uint64_t b)
{
    return a ^ (b + 0x9e3779b97f4a7800u + (a << 10) + (a >> 4));
}

static uint64_t frame_id(const mf_frames *f, int def, const mf_iteration *parent)
{
    const char *name = f->program->frames[def].name;

    if (!parent)
        return 0;
    return hash_combine(parent->frame->id,
                        hash_combine((uint64_t)parent->number, mf_murmur(name, strlen(name))));
}

static mf_loop_frame *frame_new(mf_frames *f, int def, mf_iteration *parent)
{
    mf_loop_frame *frame = f->free_frames;

    if (frame)
        f->free_frames = frame->next;
    else
        frame = mf_calloc(1, sizeof *frame);
    if (!frame)
        return NULL;
    frame->def = def;
    frame->id = frame_id(f, def, parent);
    frame->parent_iteration = parent;
    frame->parent = parent ? parent->frame : NULL;
    frame->first = frame->last = NULL;
    frame->alive = 0;
    frame->made = 0;
    frame->enters_left = f->program->frames[def].enters;
    frame->prev = NULL;
    frame->next = f->all;
    if (frame->next)
        frame->next->prev = frame;
    f->all = frame;
    if (parent)
        parent->children++;
    return frame;
}

static void frame_free(mf_frames *f, mf_loop_frame *frame)
{
    while (frame->first) {
        mf_iteration *next = frame->first->next;

        iteration_free(f, frame->first);
        frame->first = next;
    }
    tokens_clear(&frame->invariants);
    tokens_clear(&frame->deferred);
    tokens_clear(&frame->dead_exits);
    if (frame->prev)
        frame->prev->next = frame->next;
    else
        f->all = frame->next;
    if (frame->next)
        frame->next->prev = frame->prev;
    frame->next = f->free_frames;
    f->free_frames = frame;
}

static mf_status make_cells(mf_program *p)
{
    for (int i = 0; i < p->n_frames; i++) {
        p->frames[i].cells = MF_ARENA_ARRAY(p->arena, mf_cell, p->frames[i].n_items);
        if (!p->frames[i].cells)
            return MF_NOMEM("a run");
    }
    for (int i = 0; i < p->n_items; i++) {
        const mf_item *item = &p->items[i];
        mf_cell *cells = p->frames[item->frame].cells;

        cells[item->local].pending = item->kind == MF_ITEM_MERGE ? item->controls : item->pending;
    }
    return MF_OK;
}

mf_status mf_frames_init(mf_frames *f, mf_program *program)
{
    mf_status st = MF_OK;

    *f = (mf_frames){ .program = program };
    f->free_iterations = mf_calloc(program->n_frames, sizeof *f->free_iterations);
    if (!f->free_iterations)
        return MF_NOMEM("a run");
    pthread_mutex_lock(&program->lock);
    if (!program->frames[0].cells)
        st = make_cells(program);
    pthread_mutex_unlock(&program->lock);
    return st;
}

void mf_frames_deinit(mf_frames *f)
{
    mf_frames_reset(f);
    for (int i = 0; f->free_iterations && i < f->program->n_frames; i++) {
        while (f->free_iterations[i]) {
            mf_iteration *next = f->free_iterations[i]->next;

            mf_free(f->free_iterations[i]->slots);
            mf_free(f->free_iterations[i]->cells);
            mf_free(f->free_iterations[i]);
            f->free_iterations[i] = next;
        }
    }
    while (f->free_frames) {
        mf_loop_frame *next = f->free_frames->next;

        mf_free(f->free_frames->invariants.tokens);
        mf_free(f->free_frames->deferred.tokens);
        mf_free(f->free_frames->dead_exits.tokens);
        mf_free(f->free_frames);
        f->free_frames = next;
    }
    mf_free(f->free_iterations);
    mf_free(f->queue);
}

void mf_frames_reset(mf_frames *f)
{
    while (f->all)
        frame_free(f, f->all);
    f->root = NULL;
    f->q_len = f->q_head = 0;
    f->outstanding = 0;
    f->out_of_memory = false;
}

/* ---- the queue of ready items ---- */

static void frames_push(mf_frames *f, int item, mf_iteration *it)
{
    if (f->q_len == f->q_cap) {
        const int64_t cap = f->q_cap > 0 ? f->q_cap * 2 : 64;
        mf_ready *bigger = mf_calloc(cap, sizeof *bigger);

        if (!bigger) {
            f->out_of_memory = true;
            return;
        }
        for (int64_t i = 0; i < f->q_len; i++)
            bigger[i] = f->queue[(f->q_head + i) % f->q_cap];
        mf_free(f->queue);
        f->queue = bigger;
        f->q_cap = cap;
        f->q_head = 0;
    }
    if (f->program->items[item].kind == MF_ITEM_ASYNC) { /* asynchronous items start first */
        f->q_head = (f->q_head + f->q_cap - 1) % f->q_cap;
        f->queue[f->q_head] = (mf_ready){ item, it };
        f->q_len++;
    } else {
        f->queue[(f->q_head + f->q_len++) % f->q_cap] = (mf_ready){ item, it };
    }
    it->outstanding++;
    f->outstanding++;
}

mf_ready mf_frames_pop(mf_frames *f)
{
    mf_ready r = { .item = -1 };

    if (f->q_len > 0) {
        r = f->queue[f->q_head];
        f->q_head = (f->q_head + 1) % f->q_cap;
        f->q_len--;
    }
    return r;
}

/* ---- tokens ---- */

static void arrive_at_merge(mf_frames *f, mf_iteration *it, const mf_edge *e, mf_tensor *value,
                            bool from_enter)
{
    const mf_item *item = &f->program->items[e->item];
    mf_cell *cell = &it->cells[item->local];
    bool all_dead = false;

    if (e->input < 0) {
        cell->pending--;
    } else if (value) {
        if (!cell->chosen) {
            cell->chosen = e->input + 1;
            mf_tensor_move(&it->slots[item->in[e->input].slot], value);
        }
    } else {
        cell->dead++;
        /* The variable of a loop that is not entered: its other input never arrives. */
        if (from_enter)
            cell->dead = item->n_in;
    }
    all_dead = cell->dead >= item->n_in;
    if (cell->pending == 0 && !cell->queued && (cell->chosen || all_dead)) {
        cell->queued = true;
        frames_push(f, e->item, it);
    }
}

/* value is moved; NULL: dead (or a control token if e->input < 0; then `dead` decides). */
static void frames_arrive(mf_frames *f, mf_iteration *it, const mf_edge *e, mf_tensor *value,
                          bool dead, bool from_enter)
{
    const mf_item *item = &f->program->items[e->item];
    mf_cell *cell = &it->cells[item->local];

    if (item->kind == MF_ITEM_MERGE) {
        arrive_at_merge(f, it, e, value, from_enter);
        return;
    }
    if (dead)
        cell->dead++;
    else if (e->input >= 0)
        mf_tensor_move(&it->slots[item->in[e->input].slot], value);
    if (--cell->pending == 0 && !cell->queued) {
        cell->queued = true;
        frames_push(f, e->item, it);
    }
}

/* All edges of one output; the last one gets the tensor itself, the others references. */
static void give_port(mf_frames *f, mf_iteration *it, const mf_item *from, int port, mf_tensor *t,
                      bool enter)
{
    const int begin = port == 0 ? 0 : from->edges_end[port - 1];
    const bool dead = t->dtype == MF_DTYPE_INVALID;

    for (int i = begin; i < from->edges_end[port]; i++) {
        mf_tensor copy = { 0 };

        if (dead) {
            frames_arrive(f, it, &from->edges[i], NULL, true, enter);
        } else {
            if (i + 1 < from->edges_end[port])
                mf_tensor_set(&copy, t);
            else
                mf_tensor_move(&copy, t);
            frames_arrive(f, it, &from->edges[i], &copy, false, enter);
            mf_tensor_clear(&copy);
        }
    }
    mf_tensor_clear(t);
}

static void give_controls(mf_frames *f, mf_iteration *it, const mf_item *from, bool dead)
{
    const int begin = from->n_out == 0 ? 0 : from->edges_end[from->n_out - 1];

    for (int i = begin; i < from->edges_end[from->n_out]; i++)
        frames_arrive(f, it, &from->edges[i], NULL, dead, false);
}

static void keep_token(mf_frames *f, mf_token_list *l, int item, const mf_tensor *t)
{
    if (mf_grow(&l->tokens, &l->cap, l->n + 1, sizeof *l->tokens) != MF_OK) {
        f->out_of_memory = true;
        return;
    }
    l->tokens[l->n] = (mf_wait_report_token){ .item = item };
    if (t->dtype != MF_DTYPE_INVALID)
        mf_tensor_set(&l->tokens[l->n].tensor, t);
    l->n++;
}

/* Sends one token of Enter, NextIteration or Exit, and its control edges, to an iteration. */
static void give_all(mf_frames *f, mf_iteration *it, int item, mf_tensor *t)
{
    const mf_item *from = &f->program->items[item];
    const bool dead = t->dtype == MF_DTYPE_INVALID;

    give_port(f, it, from, 0, t, from->kind == MF_ITEM_ENTER);
    give_controls(f, it, from, dead);
}

/* ---- loops ---- */

static mf_iteration *start_iteration(mf_frames *f, mf_loop_frame *frame)
{
    mf_iteration *it = iteration_new(f, frame);

    if (!it) {
        f->out_of_memory = true;
        return NULL;
    }
    frame->dead_exits.n =
        0; /* the loop continues: dead tokens of earlier iterations are not results */
    for (int64_t i = 0; i < frame->invariants.n; i++) {
        mf_tensor copy = { 0 };

        if (frame->invariants.tokens[i].tensor.dtype != MF_DTYPE_INVALID)
            mf_tensor_set(&copy, &frame->invariants.tokens[i].tensor);
        give_all(f, it, frame->invariants.tokens[i].item, &copy);
    }
    return it;
}

static mf_loop_frame *find_child(mf_frames *f, mf_iteration *parent, int def)
{
    mf_loop_frame *frame;

    for (frame = f->all; frame; frame = frame->next) {
        if (frame->def == def && frame->parent_iteration == parent)
            return frame;
    }
    frame = frame_new(f, def, parent);
    if (!frame || !start_iteration(f, frame)) {
        f->out_of_memory = true;
        return NULL;
    }
    return frame;
}

static void frames_enter(mf_frames *f, mf_iteration *it, int at, mf_tensor *t)
{
    const mf_item *item = &f->program->items[at];
    mf_loop_frame *frame = find_child(f, it, item->child);

    if (!frame)
        return;
    if (item->constant_enter) {
        keep_token(f, &frame->invariants, at, t);
        for (mf_iteration *i = frame->first; i; i = i->next) {
            mf_tensor copy = { 0 };

            if (t->dtype != MF_DTYPE_INVALID)
                mf_tensor_set(&copy, t);
            give_all(f, i, at, &copy);
        }
    } else {
        give_all(f, frame->first, at, t);
    }
    frame->enters_left--;
}

static void next_iteration(mf_frames *f, mf_iteration *it, int at, mf_tensor *t)
{
    mf_loop_frame *frame = it->frame;
    mf_iteration *next = it->next;

    if (t->dtype == MF_DTYPE_INVALID)
        return; /* the loop ends */
    if (!next) {
        if (frame->alive >= f->program->frames[frame->def].parallel_iterations) {
            keep_token(f, &frame->deferred, at, t);
            return;
        }
        next = start_iteration(f, frame);
        if (!next)
            return;
    }
    give_all(f, next, at, t);
}

static void frames_leave(mf_frames *f, mf_iteration *it, int at, mf_tensor *t)
{
    if (t->dtype != MF_DTYPE_INVALID)
        give_all(f, it->frame->parent_iteration, at, t);
    else if (it == it->frame->last)
        keep_token(f, &it->frame->dead_exits, at, t);
}

static void release_deferred(mf_frames *f, mf_loop_frame *frame)
{
    mf_iteration *it;
    mf_token_list taken = frame->deferred;

    if (taken.n == 0)
        return;
    frame->deferred = (mf_token_list){ 0 };
    it = start_iteration(f, frame);
    for (int64_t i = 0; i < taken.n && it; i++)
        give_all(f, it, taken.tokens[i].item, &taken.tokens[i].tensor);
    tokens_clear(&taken);
    if (frame->deferred.tokens)
        mf_free(taken.tokens);
    else
        frame->deferred = taken;
}

/* All iterations of a frame have ended: dead Exits of the last one go to the parent. */
static mf_iteration *end_frame(mf_frames *f, mf_loop_frame *frame)
{
    mf_iteration *parent = frame->parent_iteration;
    mf_token_list exits = frame->dead_exits;

    frame->dead_exits = (mf_token_list){ 0 };
    frame_free(f, frame);
    for (int64_t i = 0; i < exits.n && parent; i++)
        give_all(f, parent, exits.tokens[i].item, &exits.tokens[i].tensor);
    mf_free(exits.tokens);
    if (parent)
        parent->children--;
    return parent;
}

/* Iterations end in order; the first one may still receive tokens until all Enters have arrived. */
static void end_iterations(mf_frames *f, mf_iteration *it)
{
    while (it) {
        mf_loop_frame *frame = it->frame;

        while (frame->first && frame->first->outstanding == 0 && frame->first->children == 0 &&
               frame->enters_left == 0) {
            mf_iteration *first = frame->first;

            frame->first = first->next;
            if (!frame->first)
                frame->last = NULL;
            frame->alive--;
            iteration_free(f, first);
            release_deferred(f, frame);
        }
        if (frame->first || frame == f->root)
            return;
        it = end_frame(f, frame);
    }
}

/* ---- start and progress ---- */

mf_status mf_frames_start(mf_frames *f)
{
    mf_iteration *it;

    f->root = frame_new(f, 0, NULL);
    it = f->root ? iteration_new(f, f->root) : NULL;
    if (!it)
        return MF_NOMEM("a run");
    for (int i = 0; i < f->program->n_roots; i++) {
        it->cells[f->program->items[f->program->roots[i]].local].queued = true;
        frames_push(f, f->program->roots[i], it);
    }
    return f->out_of_memory ? MF_NOMEM("a run") : MF_OK;
}

static void clear_inputs(const mf_item *item, mf_iteration *it)
{
    for (int i = 0; i < item->n_in; i++) {
        if (!item->in[i].constant)
            mf_tensor_clear(&it->slots[item->in[i].slot]);
    }
}

static void give_outputs(mf_frames *f, mf_ready what, mf_tensor *out, bool dead)
{
    const mf_item *item = &f->program->items[what.item];

    switch (item->kind) {
    case MF_ITEM_ENTER:
        frames_enter(f, what.iteration, what.item, &out[0]);
        break;
    case MF_ITEM_NEXT:
        next_iteration(f, what.iteration, what.item, &out[0]);
        break;
    case MF_ITEM_EXIT:
        frames_leave(f, what.iteration, what.item, &out[0]);
        break;
    default:
        for (int p = 0; p < item->n_out; p++)
            give_port(f, what.iteration, item, p, &out[p], false);
        give_controls(f, what.iteration, item, dead);
        break;
    }
}

void mf_frames_done(mf_frames *f, mf_ready what, mf_tensor *out, bool dead, bool discard)
{
    const mf_item *item = &f->program->items[what.item];

    clear_inputs(item, what.iteration);
    if (!discard)
        give_outputs(f, what, out, dead);
    for (int p = 0; p < item->n_out; p++)
        mf_tensor_clear(&out[p]);
    what.iteration->outstanding--;
    f->outstanding--;
    if (!discard)
        end_iterations(f, what.iteration);
}
