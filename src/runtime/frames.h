/* SPDX-License-Identifier: Apache-2.0 */
/* frames.h - the state of a run: frames, their iterations, and tokens that have arrived.
 *
 * A token is a tensor or dead. An item is ready when all its tokens are there (Merge: when one
 * alive token or all dead ones are). Rules of loops, as in TensorFlow:
 *   - a frame is made by the first Enter into it, for each iteration of its parent anew;
 *   - a constant Enter gives its token to every iteration;
 *   - NextIteration gives its token to the following iteration, a dead one to nobody;
 *   - Exit gives its token to the parent's iteration; a dead one only when it stood in the last
 *     iteration (the loop was never entered), and only when the frame has ended;
 *   - at most parallel_iterations of a frame are alive; further tokens wait.
 *
 * Everything here is guarded by the lock of the run. */
#ifndef MF_RUNTIME_FRAMES_H
#define MF_RUNTIME_FRAMES_H

#include "compiler/program.h"

typedef struct mf_loop_frame mf_loop_frame;

/* What has arrived at an item in an iteration. */
typedef struct mf_cell {
    int32_t pending; /* tokens missing; for Merge control tokens only */
    int32_t dead; /* dead tokens that came */
    int32_t chosen; /* Merge: the alive input + 1 */
    bool queued;
} mf_cell;

typedef struct mf_iteration {
    mf_loop_frame *frame;
    int64_t number;
    mf_tensor *slots;
    mf_cell *cells;
    int outstanding; /* items queued or running */
    int children; /* frames entered from here that have not ended */
    struct mf_iteration *next; /* in the frame, by number; or in the free list */
} mf_iteration;

typedef struct mf_wait_report_token {
    int item; /* the Enter, NextIteration or Exit that sent it */
    mf_tensor tensor; /* empty: dead */
} mf_wait_report_token;

typedef struct mf_token_list {
    mf_wait_report_token *tokens;
    int64_t n, cap;
} mf_token_list;

struct mf_loop_frame {
    int def;
    uint64_t id; /* TensorFlow's: tasks that share a loop number it alike; the root's is 0 */
    mf_loop_frame *parent;
    mf_iteration *parent_iteration;
    mf_iteration *first, *last; /* alive ones */
    int alive;
    int64_t made; /* iterations ever */
    int enters_left;
    mf_token_list invariants; /* constant Enters */
    mf_token_list deferred; /* NextIteration tokens over the limit */
    mf_token_list dead_exits;
    mf_loop_frame *next, *prev; /* all frames of the run */
};

typedef struct mf_ready {
    int item;
    mf_iteration *iteration;
} mf_ready;

typedef struct mf_frames {
    mf_program *program;
    mf_loop_frame *root, *all, *free_frames;
    mf_iteration **free_iterations; /* by frame def */
    mf_ready *queue; /* ring */
    int64_t q_head, q_len, q_cap;
    int64_t outstanding; /* items queued or running, all frames */
    bool out_of_memory;
} mf_frames;

MF_MUST mf_status mf_frames_init(mf_frames *f, mf_program *program);
void mf_frames_deinit(mf_frames *f);
/* Start: the root frame with its first items ready. */
MF_MUST mf_status mf_frames_start(mf_frames *f);
/* Forget everything that is left of a run; memory stays for the next. */
void mf_frames_reset(mf_frames *f);
/* NULL item (-1) when nothing is ready. */
mf_ready mf_frames_pop(mf_frames *f);
/* The item has run in its iteration: give its outputs (moved; empty tensors are dead) to whoever
 * waits. dead: the item itself did not run. With `discard` nothing is given on (a failed run winds
 * down). */
void mf_frames_done(mf_frames *f, mf_ready what, mf_tensor *out, bool dead, bool discard);

#endif
