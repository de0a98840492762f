/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_shuffle.c - Shuffle: elements are drawn from a buffer at random, in the same order as in
 * TensorFlow for the same seeds.
 *
 * Seeds 0 and 0 are replaced by random ones. With reshuffle_each_iteration a repeated dataset has
 * new seeds each time, from a stream that starts with the iterator; without it, always the same. */
#include "base/clock.h"
#include "ops/dataset/dataset_op.h"
#include "ops/random/random_util.h"

enum { BUFFER = 1, SEED, SEED2, COUNT };

/* ---- seeds ---- */

typedef struct seeds {
    mf_object object;
    mf_random_draw draw;
    uint64_t first, second;
} seeds;

static void seeds_destroy(mf_object *o)
{
    mf_free(o);
}
static const mf_object_type seeds_type = { .name = "seeds", .destroy = seeds_destroy };

/* ctx: the dataset. */
static mf_status seeds_make(void *set, mf_object **out)
{
    const mf_dataset_op *d = set;
    seeds *s = mf_calloc(1, sizeof *s);

    if (!s)
        return MF_NOMEM("seeds");
    s->object.type = &seeds_type;
    atomic_store(&s->object.refs, 1);
    s->first = (uint64_t)mf_dataset_op_int(d, SEED);
    s->second = (uint64_t)mf_dataset_op_int(d, SEED2);
    if (s->first == 0 && s->second == 0) {
        s->first = mf_random_seed();
        s->second = mf_random_seed();
    }
    s->draw = (mf_random_draw){ .gen = mf_philox_init(s->first, s->second), .used = 4 };
    *out = &s->object;
    return MF_OK;
}

/* ---- the buffer ---- */

/* Elements of one pass through the input: [start, end), counted over all passes; their position in
 * the buffer is that modulo its size. */
typedef struct round {
    int64_t start, end;
} round;

typedef struct shuffling {
    mf_cursor cursor;
    seeds *seeds; /* belongs to the iteration; a reference */
    mf_random_draw draw;
    mf_tensor *buffer; /* rows; as many as the maximum number of buffered elements so far */
    int64_t room, held;
    round *rounds; /* from `first` on, passes with elements left; the last is being filled */
    int64_t n_rounds, cap_rounds, first, done; /* done: completed passes through the input */
    bool over, some; /* some: this pass has had an element */
} shuffling;

static mf_status shuffle_check(mf_dataset_op *d)
{
    const int64_t n = mf_dataset_op_int(d, BUFFER);

    MF_TRY(mf_dataset_op_same_parts(d, mf_dataset_op_arg(d, 0)));
    if (n <= 0 && n != MF_SIZE_UNKNOWN)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "buffer_size must be greater than zero or UNKNOWN_CARDINALITY");
    return MF_OK;
}

/* Number of passes through the input: one, or the count of ShuffleAndRepeat. */
static int64_t rounds_of(const mf_dataset_op *d)
{
    return d->n_args > COUNT && d->args[COUNT].dtype == MF_DTYPE_I64 ? mf_dataset_op_int(d, COUNT)
                                                                     : 1;
}

/* Each pass through the input has its own random stream. */
static void begin_draw(shuffling *s)
{
    uint64_t first = s->seeds->first, second = s->seeds->second;

    if (s->cursor.set->option) {
        first = mf_random_u32(&s->seeds->draw);
        second = mf_random_u32(&s->seeds->draw);
    }
    s->draw = (mf_random_draw){ .gen = mf_philox_init(first, second), .used = 4 };
}

static mf_status shuffle_begin(mf_cursor *c, mf_walk *w)
{
    shuffling *s = (shuffling *)c;
    mf_object *o;

    MF_TRY(mf_cursor_state(c, w, seeds_make, &o));
    s->seeds = (seeds *)mf_object_ref(o);
    begin_draw(s);
    return MF_OK;
}

static int64_t capacity(const shuffling *s)
{
    const int64_t n = mf_dataset_op_int(s->cursor.set, BUFFER);

    return n == MF_SIZE_UNKNOWN ? INT64_MAX : n;
}

/* The row of element `at`. Until the buffer has reached its full size, `at` is below `room`. */
static mf_tensor *dataset_shuffle_row_of(const shuffling *s, int64_t at)
{
    return s->buffer + at % capacity(s) * s->cursor.set->n_parts;
}

static mf_status dataset_shuffle_put(shuffling *s, mf_tensor *row)
{
    const int n = s->cursor.set->n_parts;
    round *r = &s->rounds[s->n_rounds - 1];
    const int64_t place = r->end % capacity(s);

    MF_TRY(mf_grow(&s->buffer, &s->room, (place + 1) * n, sizeof *s->buffer));
    mf_row_move(dataset_shuffle_row_of(s, r->end), row, n);
    r->end++;
    s->held++;
    return MF_OK;
}

static mf_status begin_round(shuffling *s)
{
    const int64_t at = s->n_rounds > 0 ? s->rounds[s->n_rounds - 1].end : 0;

    s->n_rounds -= s->first;
    for (int64_t i = 0; i < s->n_rounds; i++)
        s->rounds[i] = s->rounds[s->first + i];
    s->first = 0;
    MF_TRY(mf_grow(&s->rounds, &s->cap_rounds, s->n_rounds + 1, sizeof *s->rounds));
    s->rounds[s->n_rounds++] = (round){ at, at };
    return MF_OK;
}

static mf_status begin_input(shuffling *s, mf_walk *w)
{
    mf_cursor *c = &s->cursor;

    MF_TRY(mf_cursor_begin(w, mf_dataset_op_arg(c->set, 0), c, &c->input));
    s->some = false;
    return begin_round(s);
}

/* Adds one element to the buffer unless all passes are complete. */
static mf_status fill_one(shuffling *s, mf_walk *w, mf_tensor *row)
{
    mf_cursor *c = &s->cursor;
    const int64_t count = rounds_of(c->set);
    bool end;

    s->over = count >= 0 && s->done >= count;
    if (s->over)
        return MF_OK;
    if (!c->input)
        MF_TRY(begin_input(s, w));
    MF_TRY(mf_cursor_next(c->input, w, row, &end));
    if (!end) {
        s->some = true;
        return dataset_shuffle_put(s, row);
    }
    mf_cursor_end(c->input);
    c->input = NULL;
    s->over = count < 0 && !s->some;
    s->done++;
    return MF_OK;
}

static void dataset_shuffle_take(shuffling *s, mf_tensor *row)
{
    const int n = s->cursor.set->n_parts;
    round *r;
    int64_t pick;

    while (s->rounds[s->first].start == s->rounds[s->first].end) {
        s->first++;
        begin_draw(s);
    }
    r = &s->rounds[s->first];
    pick = r->start + (int64_t)(mf_random_u32(&s->draw) % (uint64_t)(r->end - r->start));
    mf_row_move(row, dataset_shuffle_row_of(s, pick), n);
    if (pick != r->start)
        mf_row_move(dataset_shuffle_row_of(s, pick), dataset_shuffle_row_of(s, r->start), n);
    r->start++;
    s->held--;
}

static mf_status shuffle_next(mf_cursor *c, mf_walk *w, mf_tensor *row, bool *end)
{
    shuffling *s = (shuffling *)c;

    while (!s->over && s->held < capacity(s))
        MF_TRY(fill_one(s, w, row));
    *end = s->held == 0;
    if (!*end)
        dataset_shuffle_take(s, row);
    return MF_OK;
}

static void shuffle_end(mf_cursor *c)
{
    shuffling *s = (shuffling *)c;
    const int n = c->set->n_parts;

    for (int64_t i = 0; i + n <= s->room; i += n)
        mf_row_clear(s->buffer + i, n);
    mf_free(s->buffer);
    mf_free(s->rounds);
    if (s->seeds)
        mf_object_unref(&s->seeds->object);
}

static int64_t shuffle_size(const mf_dataset_op *d)
{
    const int64_t n = mf_dataset_op_input_size(d), rounds = rounds_of(d);
    int64_t all;

    if (rounds < 0)
        return n == 0 ? 0 : MF_SIZE_INFINITE;
    return n < 0 ? n : mf_mul_i64(n, rounds, &all) ? all : INT64_MAX;
}

static const mf_dataset_op_kind shuffle = { .name = "Shuffle",
                                            .cursor_bytes = sizeof(shuffling),
                                            .option = "reshuffle_each_iteration",
                                            .check = shuffle_check,
                                            .begin = shuffle_begin,
                                            .next = shuffle_next,
                                            .end = shuffle_end,
                                            .size = shuffle_size };
MF_DATASET_OP_KERNEL(shuffle)

#define SEEDS "(input_dataset:variant, buffer_size:int64, seed:int64, seed2:int64"
#define AGAIN "reshuffle_each_iteration:bool=true, "

const mf_op mf_ops_dataset_shuffle[] = {
    MF_DATASET_OP_OP("ShuffleDataset",
                     SEEDS MF_DATASET_OP_OUT AGAIN MF_DATASET_OP_TYPES MF_DATASET_OP_META, shuffle),
    MF_DATASET_OP_OP("ShuffleDatasetV3",
                     SEEDS ", seed_generator:resource" MF_DATASET_OP_OUT AGAIN MF_DATASET_OP_TYPES
                         MF_DATASET_OP_META " is_stateful",
                     shuffle),
    MF_DATASET_OP_OP("ShuffleAndRepeatDataset",
                     SEEDS ", count:int64" MF_DATASET_OP_OUT MF_DATASET_OP_TYPES
                           ", reshuffle_each_iteration:bool=true" MF_DATASET_OP_META,
                     shuffle),
    MF_DATASET_OP_OP("ShuffleAndRepeatDatasetV2",
                     SEEDS ", count:int64, seed_generator:resource" MF_DATASET_OP_OUT AGAIN
                         MF_DATASET_OP_TYPES MF_DATASET_OP_META " is_stateful",
                     shuffle),
    { 0 },
};
