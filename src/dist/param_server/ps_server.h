/* SPDX-License-Identifier: Apache-2.0 */
/* ps_server.h - internals of a parameter server; shared by ps_server.c, ps_queue.c, ps_update.c,
 * ps_answer.c and ps_save.c. */
#ifndef MF_DIST_PARAM_SERVER_PS_SERVER_H
#define MF_DIST_PARAM_SERVER_PS_SERVER_H

#include "dist/param_server/ps_dedup.h"
#include "dist/param_server/ps_leases.h"
#include "dist/param_server/ps_shm.h"
#include "dist/param_server/ps_store.h"
#include "net/mailbox.h"
#include "observe/trace.h"

/* A worker's push after its check: pointers into its data. */
typedef struct push {
    mf_mail *of; /* NULL: not received yet */
    mf_ps_push head;
    const mf_reduction_tree_node *parts;
    const float *dense; /* of the first part; the others follow */
    const float *extra; /* the same */
    const char *rows; /* where rows begin */
    size_t rows_left;
    bool is_repeated; /* it is in the weights already, and waits with the others */
} push;

typedef struct server {
    mf_ps_server_options o;
    const mf_trainer *t; /* the complete model */
    mf_placement place;
    mf_ps_store store;
    int64_t dense; /* floats of all dense slices */
    push *pushes; /* by worker */
    uint32_t *last_seq; /* by worker: of its last push that was answered */
    int64_t version; /* updates so far */
    int64_t start; /* step at which they began */
    int active; /* workers that still push */
    mf_mail *save; /* waits until all workers have left; NULL: none */
    bool stop; /* a worker asked to stop: every reply contains it from then on */
    int64_t *pulled; /* by worker: the version it has */
    int64_t **touched; /* by weight of the store: of each row, the version that changed it last */
    struct mf_ps_leases *leases;
    mf_ps_dedup done; /* batches that are in the weights, or were discarded; synchronous, or with a
                         period: not recorded */
    int64_t batches; /* that are in the weights */
    int64_t repeated, late; /* pushes of batches that are done; pushes that were thrown away */
    int64_t late_batches; /* of these */
    bool begun; /* variables have been set */
    int64_t generation; /* of the slices: when they were set */
    int64_t moment; /* asynchronous: counts changes, for copies */
    mf_buf *last_reply; /* by worker; some of it may lie in its lane */
    mf_ps_shm *lanes; /* by worker */
    mf_ps_shm copies_out; /* to the servers after this one */
    int64_t copied[MF_PS_ANSWERS]; /* by area of it: mf_ps_store.changes of the copy there; -1:
                                      none */
    int last_copy; /* the area of the last copy */
    mf_ps_shm *copies_in; /* by server: from it */
    const char *keeper; /* the keeper that has not confirmed this server's copy; NULL: no copy is in
                           flight */
    mf_trace *trace; /* NULL: not requested */
    int64_t trace_origin, trace_error; /* the chief's time 0 by the local clock, and its error */
    mf_mail
        *decisions; /* of the first server, that this server has not followed yet (ps_quorum.c) */
    uint32_t decided; /* decisions that were made or followed */
    bool over;
    mf_mailbox requests;
    mf_net_watch watch; /* wakes the thread that waits for requests */
} server;

/* Wait for a request. Fails when a peer is lost or has given up. */
MF_MUST mf_status mf_ps_next_request(server *s, mf_mail **out);

/* Decode a request: is it a push? Fails: INVALID_ARGUMENT naming the worker. */
MF_MUST mf_status mf_ps_look_at(const server *s, mf_mail *r, push *p);
/* The update by all these pushes together. */
MF_MUST mf_status mf_ps_apply(server *s, push *const *all, int n_all);

/* Parts that a push may have. */
int mf_ps_most_parts(const server *s);

/* ---- ps_server_push.c ---- */

/* A push has arrived: refuse it, or update when there are enough. */
MF_MUST mf_status mf_ps_take_push(server *s, mf_mail *r);
/* A decision of the first server has arrived. */
MF_MUST mf_status mf_ps_take_decision(server *s, mf_mail *r);
/* Update if there are enough pushes for the current weights. */
MF_MUST mf_status mf_ps_try_step(server *s);

/* ---- pushes whose parts are single shards (ps_robust_reduce.c) ---- */

typedef struct mf_ps_shards {
    const mf_aggregation *aggregation;
    int64_t n;
    const float **dense; /* by shard: its dense floats */
    double *factor; /* by shard: from a share of the batch's mean to the shard's mean */
    const float **at; /* by shard: the current gradient */
} mf_ps_shards;

/* Owns: mf_ps_shards_deinit(), also after a failure. INVALID_ARGUMENT: these pushes do not have
 * each shard of a batch exactly once. */
MF_MUST mf_status mf_ps_shards_init(mf_ps_shards *x, const server *s, const push *const *all,
                                    int n_all);
void mf_ps_shards_deinit(mf_ps_shards *x);
/* out[0..n) = the aggregate of the floats [at, at + n) of all shards. */
MF_MUST mf_status mf_ps_shards_aggregate(const mf_ps_shards *x, int64_t at, int64_t n, float *out);

/* The sums of it that are no gradients. */
MF_MUST mf_status mf_ps_sum_extra(const server *s, push *const *all, int n_all, float *out);
/* Of a table: the slice's index, and the first row that this server has of it. */
int mf_ps_index_of(const server *s, const mf_weight *w);
int64_t mf_ps_first_row(const server *s, const mf_weight *w);
/* The reply to a worker (-1: any). to: whose lane has an area for it; NULL: all of it goes into the
 * message. */
MF_MUST mf_status mf_ps_write_reply(server *s, push *const *all, int n_all, int worker,
                                    const push *to, mf_buf *message);
/* After an update or a new beginning: keep a copy, and send one to the servers after this one,
 * which have it when this returns. */
MF_MUST mf_status mf_ps_keep_copy(server *s);
/* The contents of a copy: of a synchronous server the slots; of an asynchronous one everything that
 * it needs to continue (ps_replica_image.c). */
MF_MUST mf_status mf_ps_image_size(const server *s, size_t *out);
/* changes: what was written there before is of this mf_ps_store.changes; -1: nothing. */
MF_MUST mf_status mf_ps_image_write(const server *s, int64_t changes, mf_ps_out *out);
/* Replace an asynchronous server's state by the copy. INVALID_ARGUMENT, DATA_LOSS: the state is
 * partly changed, and the server has not begun. */
MF_MUST mf_status mf_ps_image_read(server *s, mf_ps_reader *in);
/* Which state of its slice this server has. */
mf_ps_copy_of mf_ps_copy_at_hand(const server *s);
/* Show the steps of the copies that this server keeps on the status page. */
void mf_ps_show_copies(const server *s);
/* Requests about copies (ps_replication.c). */
MF_MUST mf_status mf_ps_serve_copies(server *s, mf_mail *r);
MF_MUST mf_status mf_ps_send_reply(server *s, const mf_mail *r, const void *data, size_t size);
/* Requests about traces; record an event since `start`, if a trace is active (both texts are
 * borrowed); end the trace (ps_trace.c). */
MF_MUST mf_status mf_ps_take_trace(server *s, mf_mail *r);
void mf_ps_note(const server *s, const char *what, const char *about, int64_t start);
void mf_ps_trace_end(server *s);
/* Write this server's variables to a bundle (ps_save.c). Fails: FAILED_PRECONDITION (the requester
 * has another folder), as writing files does. */
MF_MUST mf_status mf_ps_save_part(server *s, const char *where);

#endif
