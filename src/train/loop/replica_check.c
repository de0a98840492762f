/* SPDX-License-Identifier: Apache-2.0 */
/* replica_check.c - compares hashes of the variables of all workers, and restores a replica that
 * differs. */
#include "train/loop/replica_check.h"

#include "base/log.h"
#include "formats/crc32c.h"

#include <string.h>

enum {
    PIECE = 256 << 10, /* bytes that one thread hashes at a time */
    TIMES = 3, /* roll-backs to the same step that prove a persistent fault */
};

/* ---- hashing ---- */

/* Slots that only one worker has are not compared. */
static bool is_compared(const mf_replica_check *a, int64_t i)
{
    return !(mf_dist_can(a->t->dist, MF_DIST_ONE_UPDATER) &&
             mf_train_var_is_slot(&a->t->trained[i]));
}

static int64_t replica_check_bytes_of(const mf_variable *v)
{
    return mf_shape_span(&v->declared, 0, v->declared.rank) * (int64_t)mf_dtype_cell(v->dtype);
}

static int64_t pieces_of(const mf_variable *v)
{
    return (replica_check_bytes_of(v) + PIECE - 1) / PIECE;
}

typedef struct hashing {
    const char *data;
    int64_t size;
    uint32_t *sums; /* by piece */
} hashing;

static void hash_piece(void *ctx, int64_t piece)
{
    const hashing *h = ctx;
    const int64_t at = piece * PIECE, left = h->size - at;

    h->sums[piece] = mf_crc32c(0, h->data + at, (size_t)(left < PIECE ? left : PIECE));
}

static mf_status hash_variable(mf_replica_check *a, int64_t i)
{
    mf_tensor value = { 0 };
    hashing h = { .sums = a->pieces };

    MF_TRY(mf_trainer_read(a->t, &a->t->trained[i], &value));
    h.data = value.data;
    h.size = (int64_t)mf_tensor_bytes(&value);
    mf_pool_complete(a->t->pool, (h.size + PIECE - 1) / PIECE, hash_piece, &h);
    a->sums[i] = mf_crc32c(0, h.sums, (size_t)((h.size + PIECE - 1) / PIECE) * sizeof *h.sums);
    mf_tensor_clear(&value);
    return MF_OK;
}

/* FNV-1a over the checksums of all variables. */
static mf_status hash_all(mf_replica_check *a)
{
    uint64_t hash = 14695981039346656037u;

    for (int64_t i = 0; i < a->t->n_trained; i++) {
        if (!is_compared(a, i))
            continue;
        MF_TRY(hash_variable(a, i));
        hash = (hash ^ a->sums[i]) * 1099511628211u;
    }
    a->hash = hash;
    return MF_OK;
}

static mf_status replica_check_gather(mf_dist *dist, int64_t step, const void *own, int64_t size,
                                      void *all)
{
    int64_t *sizes = mf_calloc(dist->size, sizeof *sizes);
    mf_status st;

    if (!sizes)
        return MF_NOMEM("a comparison");
    for (int i = 0; i < dist->size; i++)
        sizes[i] = size;
    st = mf_all_gather(dist->group, &(mf_gather){ .call = mf_dist_collective(dist, step,
                                                                             "the weights' "
                                                                             "hash"),
                                                  .data = own,
                                                  .sizes = sizes,
                                                  .out = all });
    mf_free(sizes);
    return st;
}

/* ---- which workers differ ---- */

/* The first member of a majority of more than half; -1: there is no majority. */
static int find_majority(const uint64_t *hashes, int n)
{
    for (int i = 0; i < n; i++) {
        int same = 0;

        for (int k = 0; k < n; k++)
            same += hashes[k] == hashes[i];
        if (2 * same > n)
            return i;
    }
    return -1;
}

/* "worker 2", or "workers 1 and 2": the workers with another hash. */
static int name_others(const mf_dist *dist, const uint64_t *hashes, uint64_t hash, mf_buf *out)
{
    int n = 0;

    for (int i = 0; i < dist->size; i++) {
        if (hashes[i] != hash)
            mf_buf_printf(out, "%s%s", n++ > 0 ? " and " : "", dist->group->names[i]);
    }
    return n;
}

/* The first variable of which `rank` has another value than `like`. */
static mf_status first_difference(mf_replica_check *a, int rank, int like, const char **name)
{
    const mf_trainer *t = a->t;
    uint32_t *all = mf_calloc(t->dist->size * t->n_trained, sizeof *all);
    mf_status st = all ? MF_OK : MF_NOMEM("a comparison");

    *name = "none";
    if (st == MF_OK)
        st = replica_check_gather(t->dist, t->step, a->sums,
                                  t->n_trained * (int64_t)sizeof *a->sums, all);
    for (int64_t i = t->n_trained - 1; st == MF_OK && i >= 0; i--) {
        if (all[rank * t->n_trained + i] != all[like * t->n_trained + i])
            *name = t->trained[i].name;
    }
    mf_free(all);
    return st;
}

/* One sentence: which workers differ from which others, in which variables. */
static mf_status replica_check_describe(mf_replica_check *a, const uint64_t *hashes, int majority,
                                        mf_buf *out)
{
    const mf_dist *dist = a->t->dist;
    const int like = majority >= 0 ? majority : 0;
    int other = 0, n;
    const char *name;

    while (hashes[other] == hashes[like])
        other++;
    MF_TRY(first_difference(a, other, like, &name));
    n = name_others(dist, hashes, hashes[like], out);
    if (majority >= 0)
        mf_buf_printf(out, "'s weights differ from those of %d others", dist->size - n);
    else
        mf_buf_printf(out, "'s weights differ from %s's", dist->group->names[like]);
    mf_buf_printf(out, " after step %lld, first in %s", (long long)a->t->step, name);
    return mf_buf_finish(out);
}

/* ---- repair ---- */

static mf_status replica_check_keep(mf_replica_check *a)
{
    mf_trainer *t = a->t;

    if (!a->may_go_back)
        return MF_OK;
    if (t->step != a->step || !a->goes_back)
        a->times = 0;
    a->goes_back = true;
    a->agreed = a->hash;
    a->step = t->step;
    a->epoch = t->epoch;
    a->first = t->first;
    for (int64_t i = 0; i < t->n_trained; i++) {
        if (!is_compared(a, i) && t->dist->rank != 0)
            continue;
        mf_tensor_clear(&a->values[i]);
        MF_TRY(mf_variable_read(t->trained[i].variable, &a->values[i]));
    }
    return MF_OK;
}

static mf_status replica_check_go_back(mf_replica_check *a)
{
    mf_trainer *t = a->t;

    for (int64_t i = 0; i < t->n_trained; i++) {
        if (a->values[i].data)
            MF_TRY(mf_variable_assign(t->trained[i].variable, &a->values[i], true));
    }
    t->step = a->step;
    t->epoch = a->epoch;
    t->first = a->first;
    if (t->progress.rolled_back > t->step) /* that step is repeated, and so is the roll-back */
        t->progress.rolled_back = 0;
    return hash_all(a);
}

/* All workers get the variables of `root`. */
static mf_status replica_check_share(mf_replica_check *a, int root)
{
    mf_trainer *t = a->t;

    for (int64_t i = 0; i < t->n_trained; i++) {
        if (is_compared(a, i))
            MF_TRY(mf_dist_broadcast_variable(t->dist, root, &t->trained[i], t->step));
    }
    return hash_all(a);
}

/* Stored values may be damaged as well: a worker whose stored values have another hash gets them
 * from a worker that has the agreed ones. */
static mf_status share_if_damaged(mf_replica_check *a, uint64_t *hashes)
{
    const mf_dist *dist = a->t->dist;
    int root = -1, whole = 0;

    MF_TRY(replica_check_gather(a->t->dist, a->t->step, &a->hash, sizeof a->hash, hashes));
    for (int i = dist->size - 1; i >= 0; i--) {
        if (hashes[i] == a->agreed) {
            root = i;
            whole++;
        }
    }
    if (root < 0)
        return MF_FAIL(MF_DATA_LOSS,
                       "no worker has the weights of step %lld any more; continue from "
                       "a checkpoint (--resume)",
                       (long long)a->step);
    if (whole == dist->size)
        return MF_OK;
    MF_TRY(replica_check_share(a, root));
    return replica_check_keep(a);
}

static mf_status mend_by_going_back(mf_replica_check *a, uint64_t *hashes, const char *who)
{
    const int64_t step = a->t->step;

    if (++a->times > TIMES)
        return MF_FAIL(MF_DATA_LOSS,
                       "%s; so it was %d times before: a memory or a processor is faulty, train "
                       "without that machine",
                       who, TIMES);
    MF_WARN("%s; all workers return to step %lld and repeat %lld steps", who, (long long)a->step,
            (long long)(step - a->step));
    MF_TRY(replica_check_go_back(a));
    return share_if_damaged(a, hashes);
}

static mf_status replica_check_mend(mf_replica_check *a, uint64_t *hashes, bool *back)
{
    const int majority = find_majority(hashes, a->t->dist->size);
    mf_buf who = { 0 };
    mf_status st = replica_check_describe(a, hashes, majority, &who);

    if (st == MF_OK && a->goes_back) {
        st = mend_by_going_back(a, hashes, who.data);
        *back = st == MF_OK;
    } else if (st == MF_OK && majority >= 0) {
        MF_WARN("%s; it takes theirs, and gradients since the last comparison were partly wrong",
                who.data);
        st = replica_check_share(a, majority);
        if (st == MF_OK)
            st = replica_check_keep(a);
    } else if (st == MF_OK) {
        st = MF_FAIL(MF_DATA_LOSS,
                     "%s, and there is no majority to decide which are correct; continue from a "
                     "checkpoint (--resume)",
                     who.data);
    }
    mf_buf_deinit(&who);
    return st;
}

/* ---- the check ---- */

static mf_status replica_check_compare(mf_replica_check *a, bool *back)
{
    mf_dist *dist = a->t->dist;
    uint64_t *hashes = mf_calloc(dist->size, sizeof *hashes);
    bool same = true;
    mf_status st = hashes ? hash_all(a) : MF_NOMEM("a comparison");

    if (st == MF_OK)
        st = replica_check_gather(dist, a->t->step, &a->hash, sizeof a->hash, hashes);
    for (int i = 1; st == MF_OK && i < dist->size; i++)
        same &= hashes[i] == hashes[0];
    if (st == MF_OK)
        st = same ? replica_check_keep(a) : replica_check_mend(a, hashes, back);
    mf_free(hashes);
    return st;
}

/* Where variables must be gathered for it, the check runs no more often than configured. */
static bool is_due(const mf_replica_check *a, bool last)
{
    const mf_dist *dist = a->t ? a->t->dist : NULL;

    return dist && dist->group && dist->size > 1 && a->looked != a->t->step &&
           (a->t->step % a->every == 0 ||
            ((last || a->anew) && !mf_dist_can(dist, MF_DIST_STATE_IN_SLICES)));
}

bool mf_replica_check_looks(mf_replica_check *a)
{
    if (!is_due(a, false))
        return false;
    a->asked = a->t->step;
    return true;
}

mf_status mf_replica_check_step(mf_replica_check *a, bool last, bool *back)
{
    *back = false;
    if (!is_due(a, last) ||
        (mf_dist_can(a->t->dist, MF_DIST_STATE_IN_SLICES) && a->asked != a->t->step))
        return MF_OK;
    MF_TRY(replica_check_compare(a, back));
    a->looked = a->t->step;
    a->anew = false;
    return MF_OK;
}

mf_status mf_replica_check_init(mf_replica_check *a, mf_trainer *t, int64_t every)
{
    const mf_dist *dist = t->dist;
    int64_t most = 1;

    *a = (mf_replica_check){ .every = every == 0 ? MF_CHECK_STEPS : every };
    if (every < 0 || !mf_dist_can(dist, MF_DIST_LOCKSTEP) ||
        mf_dist_can(dist, MF_DIST_PULLS_WEIGHTS) || mf_dist_can(dist, MF_DIST_OWN_BATCHES))
        return MF_OK;
    for (int64_t i = 0; i < t->n_trained; i++) {
        const int64_t n = pieces_of(t->trained[i].variable);

        most = n > most ? n : most;
    }
    a->t = t;
    /* Updates without locks overwrite stored values; and on a mesh no worker stores complete
     * variables. */
    a->may_go_back = !mf_dist_has_aux_state(dist) && !t->options.hogwild &&
                     !mf_dist_can(dist, MF_DIST_STATE_IN_SLICES);
    a->sums = mf_calloc(t->n_trained, sizeof *a->sums);
    a->pieces = mf_calloc(most, sizeof *a->pieces);
    a->values = mf_calloc(t->n_trained, sizeof *a->values);
    if (!a->sums || !a->pieces || !a->values)
        return MF_NOMEM("a comparison");
    mf_replica_check_forget(a);
    return MF_OK;
}

void mf_replica_check_forget(mf_replica_check *a)
{
    for (int64_t i = 0; a->values && i < a->t->n_trained; i++)
        mf_tensor_clear(&a->values[i]);
    a->goes_back = false;
    a->anew = true;
    a->looked = a->t ? a->t->step : 0;
}

void mf_replica_check_deinit(mf_replica_check *a)
{
    mf_replica_check_forget(a);
    mf_free(a->values);
    mf_free(a->pieces);
    mf_free(a->sums);
    *a = (mf_replica_check){ 0 };
}
