/* SPDX-License-Identifier: Apache-2.0 */
/* frames.h - the state of a run: frames, their iterations, and tokens that have arrived.
 *
 * A token is a tensor or dead. An item is ready when all its tokens have arrived (Merge: one alive
 * token, or all dead ones). Rules of loops, as in TensorFlow:
 *
 *   - the first Enter creates a frame, separately for each iteration of its parent;
 *   - a constant Enter sends its token to every iteration;
 *   - NextIteration sends its token to the next iteration; a dead token is dropped;
 *   - Exit sends its token to the parent's iteration; a dead token only if it is in the last
 *     iteration (the loop was never entered), and only when the frame has ended;
 *   - at most parallel_iterations of a frame are alive; further tokens wait.
 *
 * Everything here is guarded by the lock of the run. */
#ifndef MF_RUNTIME_FRAMES_H
#define MF_RUNTIME_FRAMES_H

#include "compiler/program.h"

typedef struct mf_loop_frame mf_loop_frame;

/* The tokens of an item in an iteration. */
typedef struct mf_cell {
    int32_t pending; /* missing tokens; for Merge, control tokens only */
    int32_t dead; /* dead tokens received */
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
    uint64_t id; /* TensorFlow's: equal on all tasks that share a loop; the root's is 0 */
    mf_loop_frame *parent;
    mf_iteration *parent_iteration;
    mf_iteration *first, *last; /* alive iterations */
    int alive;
    int64_t made; /* iterations created so far */
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
    mf_ready *queue; /* ring buffer */
    int64_t q_head, q_len, q_cap;
    int64_t outstanding; /* items queued or running in all frames */
    bool out_of_memory;
} mf_frames;

MF_MUST mf_status mf_frames_init(mf_frames *f, mf_program *program);
void mf_frames_deinit(mf_frames *f);
/* Start: the root frame with its first items ready. */
MF_MUST mf_status mf_frames_start(mf_frames *f);
/* Discard the state of a run; memory is kept for the next. */
void mf_frames_reset(mf_frames *f);
/* Item -1 if none is ready. */
mf_ready mf_frames_pop(mf_frames *f);
/* The item has run in its iteration: forward its outputs (moved; empty tensors are dead). dead: the
 * item itself did not run. With `discard` nothing is forwarded (a failed run is being unwound). */
void mf_frames_done(mf_frames *f, mf_ready what, mf_tensor *out, bool dead, bool discard);

#endif
