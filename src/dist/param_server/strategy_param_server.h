/* SPDX-License-Identifier: Apache-2.0 */
/* strategy_param_server.h - parameter servers: what workers and servers say to each other.
 *
 * A worker pushes what its shards have given, part by part, and gets back the new weights: one
 * message to each server and one back for every step. Requests carry a number that grows; one that
 * comes twice is answered twice and applied once. Numbers are in the order of the machine: tasks of
 * one numerics class have the same.
 *
 * A part of a push is a sum over neighbouring shards; where the server aggregates gradients of
 * shards one by one (mf_aggregate_is_apart), a part is one shard. */
#ifndef MF_DIST_PARAM_SERVER_STRATEGY_PARAM_SERVER_H
#define MF_DIST_PARAM_SERVER_STRATEGY_PARAM_SERVER_H

#include "base/buf.h"
#include "dist/param_server/ps_replication.h"
#include "dist/param_server/ps_shm.h"
#include "dist/param_server/push_pull.h"
#include "dist/param_server/slice_placement.h"
#include "dist/strategies.h"
#include "net/net.h"
#include "train/step/trainer.h"

/* mf_frame.group of a request; its reply has the same, and the same step and seq. */
typedef enum mf_ps_request {
    MF_PS_PUSH = 0x1001, /* a worker's part of a step -> the new weights */
    MF_PS_SHM, /* of shared memory: "NAME ROOM" -> nothing; or why it cannot be used */
    MF_PS_SET, /* variables, as they are after the frame's step -> nothing */
    MF_PS_GET, /* nothing -> variables */
    MF_PS_END, /* there is nothing more to do -> the largest staleness that was seen */
    MF_PS_LEAVE, /* no more pushes of this worker -> nothing */
    MF_PS_SAVE, /* where: write your part of a checkpoint there, once all workers have left ->
                   nothing; or why not */
    MF_PS_COPY, /* from a server before this one, see ps_replica_store.c; then MF_PS_KEPT */
    MF_PS_KEPT, /* to that server: do we have it?; no reply */
    MF_PS_REPLICATION, /* nothing -> mf_ps_copy_of after mf_ps_copy_of: which copies there are */
    MF_PS_FETCH, /* mf_ps_copy_of -> the same and its bytes; nothing, if there is none */
    MF_PS_TAKE, /* what MF_PS_FETCH has given: become that (nothing: stay as you are), and give
                   copies of it -> nothing; or why not. Asynchronous servers only */
    MF_PS_LEASE, /* of a batch, of the first server: mf_ps_lease -> its number, or mf_ps_no_batch */
    MF_PS_TRACE, /* of what the server does, see ps_trace.c */
    MF_PS_STAND, /* nothing -> mf_ps_standing */
} mf_ps_request;

/* Flags. */
enum {
    MF_PS_BAD = 1, /* the loss is no number */
};

typedef struct mf_ps_push {
    int64_t step, samples, leaves;
    int64_t n_parts, n_extra; /* extra: sums that are no gradients, for the first server */
    int64_t version; /* of the weights that it was computed with */
    int64_t workers; /* it is of so many of them */
    int64_t batches; /* and of so many steps of each (mf_ps_mode.period) */
    float learning_rate;
    uint16_t flags, step_flags; /* dist/step_flags.h */
    int64_t in_lane; /* so many bytes of what follows the parts lie in the lane; -1: none */
    int64_t answer; /* which area of the lane is for the answer; -1: none */
    /* then: parts (lo, hi); the slices of every part; the extra floats of every part; for every
     * gradient of rows: their number, their ids, their floats */
} mf_ps_push;

typedef struct mf_ps_reply {
    int64_t status; /* mf_status; then the message follows, and nothing else */
    int64_t n_extra;
    int64_t version; /* updates so far */
    int64_t done; /* batches of the whole training so far, see mf_ps_standing */
    uint32_t step_flags, pad;
    int64_t in_lane; /* so many bytes of what follows lie in the lane's area; -1: none */
    /* then: slices (in a lane each aligned, MF_PS_ALIGN); extra sums; for every gradient of rows:
     * their number, their ids, their values
     */
} mf_ps_reply;

/* How a server stands. */
typedef struct mf_ps_standing {
    int64_t begun; /* a training: it has been given variables */
    int64_t start; /* its first step */
    int64_t version; /* updates so far */
    int64_t steps; /* its global_step, which updates count up themselves */
    int64_t batches; /* that went into them, each counted once (with a period: as often as it was
                        pushed); of synchronous servers 0 */
    int64_t repeated, late; /* pushes of batches that had; pushes that were thrown away */
    int64_t done; /* start, and batches that went into updates or were thrown away */
    int64_t staleness; /* the largest that was seen; of the first server */
    mf_ps_copy_of holds; /* what it would give a copy of */
} mf_ps_standing;

typedef enum mf_ps_no_batch {
    MF_PS_NONE_LEFT = -1,
    MF_PS_NO_BLOCK = -2, /* all are others' as long as these are here: ask again later */
    MF_PS_SAVE_FIRST = -3, /* the first worker: others wait until it has saved and asks again */
} mf_ps_no_batch;

typedef struct mf_ps_lease {
    int64_t start, total; /* of the training, in batches */
    int64_t save_every; /* a checkpoint of so many batches, and of twice as many and so on, has
                           exactly these; 0: none has */
    int64_t held; /* of the last so many the servers have not got anything yet */
    int64_t n_near; /* see mf_dist */
    uint8_t near[MF_DIST_STREAMS];
} mf_ps_lease;

/* For whoever wants to know: which server has which rows. */
void mf_ps_say_placement(const mf_placement *place, const mf_weight_partition *rule);

/* Which elements of a variable of `count` a server has, if it has such a variable; false: none.
 * What is no weight's own, or not as large as its weight, is everybody's. */
bool mf_ps_range(const mf_trainer *t, const mf_placement *place, int server, const char *name,
                 int64_t count, int64_t *from, int64_t *to);

/* Bytes of a peer, taken from the front. NULL, and `bad` from then on: there are not so many. */
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

/* All that follow become part of the trainer's: what a server of this placement holds. who: for
 * messages. DATA_LOSS. */
MF_MUST mf_status mf_ps_take_variables(const mf_trainer *t, const mf_placement *place, int server,
                                       const char *who, const void *data, size_t size);

void mf_ps_write_variable(mf_ps_out *out, const char *name, const void *data, int64_t count,
                          size_t cell);
/* The next one; false: no more, or bad. */
bool mf_ps_read_variable(mf_ps_reader *r, const char **name, const void **data, int64_t *bytes);

/* ---- the two sides ---- */

/* How workers and servers keep step. */
typedef struct mf_ps_mode {
    bool sync; /* all workers share each batch; else each has batches of its own */
    int64_t staleness; /* no worker gets further ahead of another than so many steps; -1: any */
    int64_t quorum; /* an update waits for so many pushes, and the rest of them is thrown away; 0:
                       every push is an update */
    int64_t period; /* push and pull only every so many steps */
    int64_t blocks; /* of data, each for one worker: see ps_leases.h; 0: none */
    mf_weight_partition partition; /* of weights */
    mf_aggregation aggregation; /* sync; else the mean. Its weights must outlive all users */
} mf_ps_mode;

/* From the settings of the strategy, for so many workers. Owns: mf_free(*weights), also after a
 * failure. INVALID_ARGUMENT naming those that do not go together. */
MF_MUST mf_status mf_ps_read_mode(const mf_options *o, int workers, mf_ps_mode *mode,
                                  double **weights);

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
void mf_ps_client_join_crew(mf_ps_client *c, const struct mf_ps_host_aggregate *crew);
mf_push_pull *mf_ps_client_rounds(mf_ps_client *c);
/* Between steps: our gradients are multiplied by this before they are pushed. */
void mf_ps_client_weigh(mf_ps_client *c, float factor);
mf_trainer *mf_ps_client_trainer(mf_ps_client *c);
const mf_placement *mf_ps_client_placement(const mf_ps_client *c);
/* Bytes of this worker's pushes and of what came back for them. */
void mf_ps_client_traffic(const mf_ps_client *c, int64_t *pushed, int64_t *pulled);
/* What somebody has joined_step_flags for in the last round (dist/step_flags.h). */
int mf_ps_client_step_flags(mf_ps_client *c);
/* Training begins, again perhaps: nothing has come from the servers yet. */
void mf_ps_client_begin(mf_ps_client *c);
/* Servers are others than before, perhaps: our variables become what the servers had after this
 * step, from copies of those who are left. *found: there are enough. */
MF_MUST mf_status mf_ps_client_recover(mf_ps_client *c, int64_t step, bool *found);
/* Asynchronous servers are others than before, perhaps: each becomes what the one that had its
 * slice was when it last answered a push, from its own memory or from a copy, and all have copies
 * again. *found false: there is no training that all slices can be had of. */
MF_MUST mf_status mf_ps_client_restore(mf_ps_client *c, bool *found);
/* How many batches of the training servers have done, as far as this worker knows. */
int64_t mf_ps_client_done(const mf_ps_client *c);
/* How every server stands, each[n_servers]. What we push from here on was computed with these
 * versions. */
MF_MUST mf_status mf_ps_client_stand(mf_ps_client *c, mf_ps_standing *each);
/* The servers get our variables; we get theirs. */
MF_MUST mf_status mf_ps_client_set(mf_ps_client *c);
MF_MUST mf_status mf_ps_client_get(mf_ps_client *c);
MF_MUST mf_status mf_ps_client_end(mf_ps_client *c, int64_t *staleness);
/* The servers write what they hold; each part is added to the snapshot. They cannot, as they do not
 * see the folder, say: that is logged, and there are no parts. */
MF_MUST mf_status mf_ps_client_save(mf_ps_client *c, const char *prefix, struct mf_snapshot *s);
/* Push what is held of the last steps (mf_ps_mode.period). */
MF_MUST mf_status mf_ps_client_flush(mf_ps_client *c);
/* Nobody needs to wait for our pushes any more. */
MF_MUST mf_status mf_ps_client_leave(mf_ps_client *c);
/* Which servers hold what of this variable, and of which update this worker has it. Nobody: it is
 * no matter of servers. */
struct mf_holders;
void mf_ps_client_holders(const mf_ps_client *c, const char *variable, struct mf_holders *out);
MF_MUST mf_status mf_ps_client_lease(mf_ps_client *c, const mf_ps_lease *lease, int64_t *batch);

/* The servers note what they do from here on, `origin` being time 0 by our clock; their events,
 * each behind a comma. Between the two the server's trace is one of whoever began it. */
MF_MUST mf_status mf_ps_client_trace_begin(mf_ps_client *c, int64_t origin);
MF_MUST mf_status mf_ps_client_trace_end(mf_ps_client *c, mf_buf *out);

typedef struct mf_ps_server_options {
    mf_net *net;
    int n_workers; /* tasks 0 .. n_workers - 1 */
    int index, n_servers;
    mf_ps_mode mode;
    int64_t timeout_ns;
    struct mf_ps_replication *copies; /* kept from one time of serving to the next; NULL: none */
    int n_copies; /* so many other servers have one of each, if there are as many */
    int64_t generation; /* of slices; of copies */
    /* What a server holds stays here from one time of serving to the next, as long as there are as
     * many servers: mf_ps_server_free(). NULL: it is gone with each. */
    struct server **kept;
    /* Somebody may wait to be let in: asked now and then while there are no workers. NULL: nobody
     */
    bool (*wait_for_next)(void *ctx);
    void *ctx;
} mf_ps_server_options;

/* Serve until a worker says that it is over, or trouble comes; without workers, until somebody
 * waits to be let in (ABORTED). t: the whole model, not trained. */
MF_MUST mf_status mf_ps_serve(const mf_ps_server_options *o, mf_trainer *t);
void mf_ps_server_free(struct server *s);

#endif
