/* SPDX-License-Identifier: Apache-2.0 */
/* strategy_param_server.h - parameter servers: the protocol of workers and servers.
 *
 * A worker pushes the gradients of its shards, part by part, and gets the new weights: one message
 * to each server and one back for every step. Requests have an ascending number; a repeated request
 * is answered again and applied once. Numbers are in host byte order: tasks of one numerics class
 * share it.
 *
 * A part of a push is a sum over neighbouring shards; where the server aggregates gradients of
 * shards individually (mf_aggregate_is_apart), a part is one shard. */
#ifndef MF_DIST_PARAM_SERVER_STRATEGY_PARAM_SERVER_H
#define MF_DIST_PARAM_SERVER_STRATEGY_PARAM_SERVER_H

#include "base/buf.h"
#include "dist/param_server/ps_replica_table.h"
#include "dist/param_server/ps_settings.h"
#include "dist/param_server/ps_shm.h"
#include "dist/param_server/push_pull.h"
#include "dist/param_server/slice_placement.h"
#include "dist/strategies.h"
#include "net/net.h"
#include "train/step/trainer.h"

/* mf_frame.group of a request; its reply has the same, and the same step and seq. */
typedef enum mf_ps_request {
    MF_PS_PUSH = 0x1001, /* a worker's part of a step -> the new weights */
    MF_PS_SHM, /* name of shared memory: "NAME ROOM" -> nothing; or the reason why it cannot be used
                */
    MF_PS_SET, /* variables, as of the frame's step -> nothing */
    MF_PS_GET, /* nothing -> variables */
    MF_PS_END, /* the job is over -> the largest staleness that was seen */
    MF_PS_LEAVE, /* no more pushes of this worker -> nothing */
    MF_PS_SAVE, /* path: write this server's part of a checkpoint there, after all workers have left
                   -> nothing; or a failure */
    MF_PS_COPY, /* from a server before this one, see ps_replication.c; then MF_PS_KEPT */
    MF_PS_KEPT, /* to that server: was the copy stored?; no reply */
    MF_PS_REPLICATION, /* nothing -> the list of copies, mf_ps_copy_of each */
    MF_PS_FETCH, /* mf_ps_copy_of -> the same and its bytes; nothing: no such copy */
    MF_PS_TAKE, /* the reply of MF_PS_FETCH: replace the state by it (nothing: keep the state), and
                   send copies -> nothing; or a failure. Asynchronous servers only */
    MF_PS_LEASE, /* of a batch, of the first server: mf_ps_lease -> its number, or mf_ps_no_batch */
    MF_PS_TRACE, /* of the server's work, see ps_trace.c */
    MF_PS_PROGRESS, /* nothing -> mf_ps_progress */
    MF_PS_DECISION, /* of the first server, to the others (ps_quorum.c); no reply */
} mf_ps_request;

/* Flags. */
enum {
    MF_PS_BAD = 1, /* the loss is NaN/Inf */
};

typedef struct mf_ps_push {
    int64_t step, samples, leaves;
    int64_t n_parts, n_extra; /* extra: sums that are no gradients, for the first server */
    int64_t version; /* of the weights that it was computed with */
    int64_t workers; /* how many workers it is of */
    int64_t batches; /* and how many steps of each (mf_ps_mode.period) */
    float learning_rate;
    uint16_t flags, step_flags; /* dist/step_flags.h */
    int64_t in_lane; /* how many of the bytes after the parts are in the lane; -1: no lane */
    int64_t answer; /* the area of the lane for the reply; -1: none */
    /* then: parts (lo, hi); the slices of every part; the extra floats of every part; for every
     * gradient of rows: their number, their ids, their floats */
} mf_ps_push;

typedef struct mf_ps_reply {
    int64_t status; /* mf_status; if it is not 0, only the message follows */
    int64_t n_extra;
    int64_t version; /* updates so far */
    int64_t done; /* completed batches of the training, see mf_ps_progress */
    uint32_t step_flags, pad;
    int64_t in_lane; /* how many of the following bytes are in the lane's area; -1: no lane */
    /* then: slices (in a lane each aligned, MF_PS_ALIGN); extra sums; for every gradient of rows:
     * their number, their ids, their values
     */
} mf_ps_reply;

/* The progress of a server. */
typedef struct mf_ps_progress {
    int64_t begun; /* a training has begun: the server has variables */
    int64_t start; /* its first step */
    int64_t version; /* updates so far */
    int64_t steps; /* its global_step, which updates count up themselves */
    int64_t batches; /* that are in the weights, each counted once (with a period: as often as it
                        was pushed); of synchronous servers 0 */
    int64_t repeated, late; /* pushes of batches that had; pushes that were thrown away */
    int64_t done; /* start, and batches that are in updates or were discarded */
    int64_t staleness; /* the largest that was seen; of the first server */
    mf_ps_copy_of holds; /* the copy that it can send */
} mf_ps_progress;

typedef enum mf_ps_no_batch {
    MF_PS_NONE_LEFT = -1,
    MF_PS_NO_BLOCK = -2, /* other workers have all blocks: ask again later */
    MF_PS_SAVE_FIRST = -3, /* the first worker only: no batch is leased until it has saved and asks
                              again */
} mf_ps_no_batch;

typedef struct mf_ps_lease {
    int64_t start, total; /* of the training, in batches */
    int64_t save_every; /* checkpoints contain exactly a multiple of this number of batches; 0: no
                           checkpoints */
    int64_t held; /* how many of the last batches the worker has not pushed yet */
    int64_t n_near; /* see mf_dist */
    uint8_t near[MF_DIST_STREAMS];
} mf_ps_lease;

/* Log which server has which rows. */
void mf_ps_log_placement(const mf_placement *place, const mf_weight_partition *rule);

/* Which elements of a variable of `count` a server has, if it has such a variable; false: none.
 * Variables that do not belong to a weight, or have another size than their weight, are on all
 * servers. */
bool mf_ps_range(const mf_trainer *t, const mf_placement *place, int server, const char *name,
                 int64_t count, int64_t *from, int64_t *to);

/* Reads a peer's bytes from the front. NULL, and `bad` from then on: too few bytes. */
typedef struct mf_ps_reader {
    const char *at;
    size_t left;
    bool bad;
} mf_ps_reader;

static inline const void *mf_ps_reader_take(mf_ps_reader *r, int64_t count, size_t size)
{
    const char *at = r->at;
    int64_t bytes;

    if (r->bad || !mf_mul_i64(count, (int64_t)size, &bytes) || (size_t)bytes > r->left) {
        r->bad = true;
        return NULL;
    }
    r->at += bytes;
    r->left -= (size_t)bytes;
    return at;
}

/* ---- variables on the wire: name, elements, floats ---- */

/* Assign all following variables to the trainer's: variables that a server of this placement holds.
 * who: for messages. DATA_LOSS. */
MF_MUST mf_status mf_ps_take_variables(const mf_trainer *t, const mf_placement *place, int server,
                                       const char *who, const void *data, size_t size);

void mf_ps_write_variable(mf_ps_out *out, const char *name, const void *data, int64_t count,
                          size_t cell);
/* The beginning of it: the bytes of the value follow. */
void mf_ps_write_variable_head(mf_ps_out *out, const char *name, int64_t bytes);
/* The next variable; false: no more, or bad. */
bool mf_ps_read_variable(mf_ps_reader *r, const char **name, const void **data, int64_t *bytes);

/* ---- the two sides ---- */

/* How weights are divided, the same on all tasks. */
MF_MUST mf_status mf_ps_place(const mf_trainer *t, int servers, const mf_ps_mode *mode,
                              mf_placement *out);

typedef struct mf_ps_client mf_ps_client;
struct mf_ps_host_aggregate;

/* Servers are the tasks first_server .. first_server + n_servers - 1. */
MF_MUST mf_status mf_ps_client_new(mf_net *net, int first_server, int n_servers, mf_trainer *t,
                                   const mf_ps_mode *mode, int64_t first, int64_t count,
                                   int64_t timeout_ns, mf_ps_client **out);
void mf_ps_client_free(mf_ps_client *c);
/* Workers of this host push together. */
void mf_ps_client_use_host_aggregate(mf_ps_client *c,
                                     const struct mf_ps_host_aggregate *host_aggregate);
mf_push_pull *mf_ps_client_rounds(mf_ps_client *c);
/* Between steps: this worker's gradients are multiplied by this factor before they are pushed. */
void mf_ps_client_weigh(mf_ps_client *c, float factor);
mf_trainer *mf_ps_client_trainer(mf_ps_client *c);
const mf_placement *mf_ps_client_placement(const mf_ps_client *c);
/* Bytes of this worker's pushes and of their replies. */
void mf_ps_client_traffic(const mf_ps_client *c, int64_t *pushed, int64_t *pulled);
/* The step flags of all workers, of the last round (dist/step_flags.h). */
int mf_ps_client_step_flags(mf_ps_client *c);
/* Training begins, possibly again: nothing was pulled yet. */
void mf_ps_client_begin(mf_ps_client *c);
/* The servers may have changed: set this worker's variables to the servers' state after this step,
 * from copies of the remaining ones. *found: there are enough. */
MF_MUST mf_status mf_ps_client_recover(mf_ps_client *c, int64_t step, bool *found);
/* Asynchronous servers may have changed: each gets the state of its slice as of the last reply to a
 * push, from its own memory or from a copy, and all get copies again. *found false: no training has
 * all slices. */
MF_MUST mf_status mf_ps_client_restore(mf_ps_client *c, bool *found);
/* How many batches of the training the servers have done, as far as this worker knows. */
int64_t mf_ps_client_done(const mf_ps_client *c);
/* The progress of every server, each[n_servers]. Later pushes are computed with these versions. */
MF_MUST mf_status mf_ps_client_progress(mf_ps_client *c, mf_ps_progress *each);
/* Send this worker's variables to the servers; pull theirs. */
MF_MUST mf_status mf_ps_client_set(mf_ps_client *c);
MF_MUST mf_status mf_ps_client_get(mf_ps_client *c);
MF_MUST mf_status mf_ps_client_end(mf_ps_client *c, int64_t *staleness);
/* The servers write their variables; each part is added to the snapshot. If they cannot (they have
 * another folder, for example), that is logged, and there are no parts. */
MF_MUST mf_status mf_ps_client_save(mf_ps_client *c, const char *prefix, struct mf_snapshot *s);
/* Push the accumulated gradients of the last steps (mf_ps_mode.period). */
MF_MUST mf_status mf_ps_client_flush(mf_ps_client *c);
/* This worker pushes no more: others need not wait for it. */
MF_MUST mf_status mf_ps_client_leave(mf_ps_client *c);
/* Which servers hold which part of this variable, and of which update this worker's copy is. No
 * holders: servers do not hold it. */
struct mf_holders;
void mf_ps_client_holders(const mf_ps_client *c, const char *variable, struct mf_holders *out);
MF_MUST mf_status mf_ps_client_lease(mf_ps_client *c, const mf_ps_lease *lease, int64_t *batch);

/* The servers record their work from here on, `origin` being time 0 by the local clock; then append
 * their events, each after a comma. Meanwhile the server's trace belongs to the worker that began
 * it. */
MF_MUST mf_status mf_ps_client_trace_begin(mf_ps_client *c, int64_t origin);
MF_MUST mf_status mf_ps_client_trace_end(mf_ps_client *c, mf_buf *out);

typedef struct mf_ps_server_options {
    mf_net *net;
    int n_workers; /* tasks 0 .. n_workers - 1 */
    int index, n_servers;
    mf_ps_mode mode;
    int64_t timeout_ns;
    struct mf_ps_replica_table *copies; /* kept between epochs; NULL: none */
    int n_copies; /* how many other servers have a copy of each, if there are as many */
    int64_t generation; /* of slices; of copies */
    /* The server's state between epochs, as long as the number of servers does not change:
     * mf_ps_server_free(). NULL: each epoch begins without state. */
    struct server **kept;
    /* Does a task wait to join? Polled while there are no workers. NULL: never */
    bool (*wait_for_next)(void *ctx);
    void *ctx;
} mf_ps_server_options;

/* Serve until a worker ends the job, or a peer fails; without workers, until a task waits to join
 * (ABORTED). t: the complete model, not trained. */
MF_MUST mf_status mf_ps_serve(const mf_ps_server_options *o, mf_trainer *t);
void mf_ps_server_free(struct server *s);

#endif
