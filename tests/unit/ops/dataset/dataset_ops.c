/* SPDX-License-Identifier: Apache-2.0 */
/* dataset_ops.c - data sets and iterators: limits, files, deadlines, failed allocations.
 * tests/tf/reading.py compares their elements with TensorFlow's. */
#include "base/mem.h"
#include "unit/ops/bench_graph.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define ONE_LONG "output_types=[int64] output_shapes=[shape[]]"
#define ANY_LONG "output_types=[int64] output_shapes=[shape?]"

static mf_output range(bench *b, double n)
{
    return mf_applyf(b->g, "RangeDataset", MF_IN(LONG(b, 0), LONG(b, n), LONG(b, 1)), ONE_LONG);
}

static mf_output element(bench *b)
{
    return mf_applyf(b->g, "Placeholder", MF_NO_IN, "dtype=int64");
}

/* An iterator over the data set: the op that starts it, and its next element. */
typedef struct walk {
    mf_output handle, start, next;
} walk;

static walk over(bench *b, mf_output set, const char *parts)
{
    walk w;

    w.handle = mf_applyf(b->g, "IteratorV2", MF_NO_IN, "shared_name='' container='' %s", parts);
    w.start = mf_apply(b->g, "MakeIterator", MF_IN(set, w.handle));
    w.next = mf_applyf(b->g, "IteratorGetNext", MF_IN(w.handle), "%s", parts);
    return w;
}

static mf_output map_by(bench *b, mf_output set, const char *function)
{
    return mf_applyf(b->g, "MapDataset", MF_IN(set), "f=@%s Targuments=[] " ANY_LONG, function);
}

/* x -> 3 x */
static void define_triple(bench *b)
{
    const mf_output x = element(b);

    mf_define(b->g, "triple", MF_IN(x), MF_IN(mf_apply(b->g, "Mul", MF_IN(x, LONG(b, 3)))));
}

static mf_output endless(bench *b)
{
    const mf_output x = element(b);

    mf_define(b->g, "never", MF_IN(x), MF_IN(mf_apply(b->g, "Less", MF_IN(x, LONG(b, -1)))));
    return mf_applyf(b->g, "FilterDataset", MF_IN(range(b, 1e18)),
                     "predicate=@never Targuments=[] " ONE_LONG);
}

MF_TEST(dataset_returns_its_elements_and_then_the_end)
{
    bench b = bench_new();
    walk w;

    define_triple(&b);
    w = over(&b, map_by(&b, range(&b, 2), "triple"), ANY_LONG);
    bench_start(&b);
    CANNOT(&b, w.next, MF_FAILED_PRECONDITION, "the iterator has not been initialized");
    for (int round = 0; round < 2; round++) {
        DO(&b, w.start);
        T_EQ(VALUE(&b, w.next), 0);
        T_EQ(VALUE(&b, w.next), 3);
        CANNOT(&b, w.next, MF_OUT_OF_RANGE, "End of sequence");
        CANNOT(&b, w.next, MF_OUT_OF_RANGE, "End of sequence");
    }
    bench_end(&b);
}

MF_TEST(dataset_without_an_end_stops_at_the_deadline)
{
    bench b = bench_new();
    const walk w = over(&b, endless(&b), ONE_LONG);

    bench_start(&b);
    DO(&b, w.start);
    T_FAILS(MF_DEADLINE_EXCEEDED, "", run_for(&b, w.next, 100, NULL));
    T_FAILS(MF_DEADLINE_EXCEEDED, "", run_for(&b, w.next, 100, NULL));
    bench_end(&b);
}

static void *cancel_soon(void *arg)
{
    bench *b = arg;

    (void)nanosleep(&(struct timespec){ .tv_nsec = 100000000 }, NULL);
    mf_session_cancel(b->s);
    return NULL;
}

MF_TEST(dataset_without_an_end_stops_when_the_session_is_closed)
{
    bench b = bench_new();
    const walk w = over(&b, endless(&b), ONE_LONG);
    pthread_t thread;

    bench_start(&b);
    DO(&b, w.start);
    T_EQ(pthread_create(&thread, NULL, cancel_soon, &b), 0);
    T_FAILS(MF_CANCELLED, "", run_for(&b, w.next, 0, NULL));
    (void)pthread_join(thread, NULL);
    bench_end(&b);
}

typedef struct asking {
    bench *b;
    mf_output x;
    mf_status status;
} asking;

static void *ask_briefly(void *arg)
{
    asking *a = arg;

    a->status = run_for(a->b, a->x, 100, NULL);
    return NULL;
}

MF_TEST(dataset_iterator_in_use_does_not_delay_others_beyond_their_deadline)
{
    bench b = bench_new();
    const walk w = over(&b, endless(&b), ONE_LONG);
    asking a = { .b = &b, .x = w.next };
    pthread_t closer, requester;

    bench_start(&b);
    DO(&b, w.start);
    T_EQ(pthread_create(&requester, NULL, ask_briefly, &a), 0);
    T_FAILS(MF_DEADLINE_EXCEEDED, "", run_for(&b, w.next, 300, NULL));
    (void)pthread_join(requester, NULL);
    T_EQ(a.status, MF_DEADLINE_EXCEEDED);
    T_EQ(pthread_create(&closer, NULL, cancel_soon, &b), 0);
    T_EQ(pthread_create(&requester, NULL, ask_briefly, &a), 0);
    T_TRUE(run_for(&b, w.next, 0, NULL) == MF_CANCELLED);
    (void)pthread_join(closer, NULL);
    (void)pthread_join(requester, NULL);
    bench_end(&b);
}

MF_TEST(dataset_elements_with_undeclared_shapes_are_rejected)
{
    bench b = bench_new();
    const walk w = over(&b, range(&b, 5), ANY_LONG);
    const mf_output two = mf_applyf(b.g, "IteratorGetNext", MF_IN(w.handle),
                                    "output_types=[int64] output_shapes=[shape[2]]"),
                    text = mf_applyf(b.g, "IteratorGetNext", MF_IN(w.handle),
                                     "output_types=[float] output_shapes=[shape[]]"),
                    more = mf_applyf(b.g, "IteratorGetNext", MF_IN(w.handle),
                                     "output_types=[int64,int64] output_shapes=[shape[],shape[]]");

    bench_start(&b);
    DO(&b, w.start);
    CANNOT(&b, two, MF_INVALID_ARGUMENT, "expected [2] but got []");
    CANNOT(&b, text, MF_INVALID_ARGUMENT, "expected float but got int64");
    CANNOT(&b, more, MF_INVALID_ARGUMENT, "expected 2 types but got 1");
    T_EQ(VALUE(&b, w.next), 3);
    bench_end(&b);
}

MF_TEST(dataset_function_signatures_are_checked)
{
    bench b = bench_new();
    const mf_output x = mf_applyf(b.g, "Placeholder", MF_NO_IN, "dtype=float");
    walk takes, gives;

    mf_define(b.g, "of_floats", MF_IN(x), MF_IN(mf_apply(b.g, "Neg", MF_IN(x))));
    define_triple(&b);
    takes = over(&b, map_by(&b, range(&b, 2), "of_floats"), ANY_LONG);
    gives = over(&b,
                 mf_applyf(b.g, "MapDataset", MF_IN(range(&b, 2)),
                           "f=@triple Targuments=[] output_types=[float] output_shapes=[shape?]"),
                 "output_types=[float] output_shapes=[shape?]");
    bench_start(&b);
    DO(&b, takes.start);
    CANNOT(&b, takes.next, MF_INVALID_ARGUMENT, "argument 0 must be float, but is given int64");
    DO(&b, gives.start);
    CANNOT(&b, gives.next, MF_INVALID_ARGUMENT, "result 0 is int64, not float");
    bench_end(&b);
}

/* down(x) walks through a data set whose elements are made by down. */
MF_TEST(dataset_recursive_functions_are_rejected)
{
    bench b = bench_new();
    const mf_output x = element(&b), y = element(&b), z = element(&b);
    walk w;

    mf_define(b.g, "add", MF_IN(y, z), MF_IN(mf_apply(b.g, "AddV2", MF_IN(y, z))));
    mf_define(b.g, "down", MF_IN(x),
              MF_IN(mf_applyf(b.g, "ReduceDataset", MF_IN(map_by(&b, range(&b, 2), "down"), x),
                              "f=@add Tstate=[int64] Targuments=[] " ANY_LONG)));
    w = over(&b, map_by(&b, range(&b, 2), "down"), ANY_LONG);
    bench_start(&b);
    DO(&b, w.start);
    CANNOT(&b, w.next, MF_INVALID_ARGUMENT, "recursive functions are not supported");
    bench_end(&b);
}

MF_TEST(dataset_nested_too_deep_is_rejected)
{
    bench b = bench_new();
    mf_output set = range(&b, 3), deep = { 0 };
    walk good, bad;

    for (int i = 0; i < 2100; i++) {
        set = mf_applyf(b.g, "TakeDataset", MF_IN(set, LONG(&b, -1)), ONE_LONG);
        if (i == 1900)
            deep = set;
    }
    good = over(&b, deep, ONE_LONG);
    bad = over(&b, set, ONE_LONG);
    bench_start(&b);
    DO(&b, good.start);
    T_EQ(VALUE(&b, good.next), 0);
    CANNOT(&b, bad.start, MF_INVALID_ARGUMENT, "nested more than 2000");
    bench_end(&b);
}

/* The function asks the iterator whose elements it makes. */
MF_TEST(dataset_that_contains_itself_is_rejected)
{
    bench b = bench_new();
    const mf_output x = element(&b), it = mf_applyf(b.g, "Placeholder", MF_NO_IN, "dtype=resource"),
                    own = mf_applyf(b.g, "IteratorV2", MF_NO_IN,
                                    "shared_name='' container='' " ANY_LONG);
    mf_output set, start, next, other;

    mf_define(b.g, "next", MF_IN(x, it),
              MF_IN(mf_applyf(b.g, "IteratorGetNext", MF_IN(it), ANY_LONG)));
    set = mf_applyf(b.g, "MapDataset", MF_IN(range(&b, 3), own),
                    "f=@next Targuments=[resource] " ANY_LONG);
    start = mf_apply(b.g, "MakeIterator", MF_IN(set, own));
    next = mf_applyf(b.g, "IteratorGetNext", MF_IN(own), ANY_LONG);
    other = mf_apply(b.g, "MakeIterator", MF_IN(range(&b, 3), own));
    bench_start(&b);
    DO(&b, start);
    CANNOT(&b, next, MF_FAILED_PRECONDITION, "requests an element of the same iterator");
    DO(&b, other); /* it and its data set held each other */
    T_EQ(VALUE(&b, next), 0);
    bench_end(&b);
}

/* ---- names of iterators ---- */

static mf_output text(bench *b, const char *s)
{
    mf_tensor *t = NULL;
    mf_output out;

    T_OK(mf_tensor_new(MF_DTYPE_STRING, NULL, 0, &t));
    T_OK(mf_tensor_set_string(t, 0, s, strlen(s)));
    out = mf_constant(b->g, t, NULL);
    mf_tensor_free(t);
    return out;
}

MF_TEST(dataset_iterators_are_found_only_by_their_handle)
{
    static const char *const wrong[] = {
        "",
        "iterator:",
        "iterator:s:",
        "iterator:s:99999999999:x:y",
        "iterator:s:0::v",
        "iterator:r:0::it",
        "iterator:s:-1:x:y",
        "iterator:s:18446744073709551615:x:y",
    };
    mf_output bad[MF_COUNT(wrong)];
    bench b = bench_new();
    const walk w = over(&b, range(&b, 3), ONE_LONG);
    const mf_output name = mf_apply(b.g, "IteratorToStringHandle", MF_IN(w.handle)),
                    found = mf_applyf(b.g, "IteratorFromStringHandleV2", MF_IN(name), ONE_LONG),
                    next = mf_applyf(b.g, "IteratorGetNext", MF_IN(found), ONE_LONG),
                    other = mf_applyf(b.g, "IteratorFromStringHandleV2", MF_IN(name),
                                      "output_types=[float] output_shapes=[shape[]]");

    (void)mf_applyf(b.g, "VarHandleOp", MF_NO_IN, "dtype=float shape=shape[] name='v'");
    for (int i = 0; i < MF_COUNT(wrong); i++)
        bad[i] = mf_applyf(b.g, "IteratorFromStringHandleV2", MF_IN(text(&b, wrong[i])), ONE_LONG);
    bench_start(&b);
    DO(&b, w.start);
    T_EQ(VALUE(&b, next), 0);
    T_EQ(VALUE(&b, w.next), 1);
    CANNOT(&b, other, MF_INVALID_ARGUMENT, "expected float but got int64");
    for (int i = 0; i < MF_COUNT(wrong); i++)
        CANNOT(&b, bad[i], MF_INVALID_ARGUMENT, "Could not parse string_handle");
    bench_end(&b);
}

/* ---- files ---- */

MF_TEST(dataset_files_are_read_only_within_the_allowed_directories)
{
    char dir[] = "/tmp/mf-sequence-XXXXXX", line[256];
    const char *const allowed[] = { dir };
    const char *const one = "output_types=[string] output_shapes=[shape[]]";
    bench b = bench_new();
    walk w[3];

    T_TRUE(mkdtemp(dir) != NULL);
    (void)snprintf(line, sizeof line, "cd %s && printf 'a\\n' > in && ln -s /etc/passwd link", dir);
    T_EQ(system(line), 0);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(line, sizeof line, "%s%s", i < 2 ? dir : "/etc/passwd",
                       i == 0   ? "/in"
                       : i == 1 ? "/link"
                                : "");
        w[i] = over(
            &b, mf_apply(b.g, "TextLineDataset", MF_IN(text(&b, line), text(&b, ""), LONG(&b, 0))),
            one);
    }
    T_OK(mf_graph_status(b.g));
    T_OK(mf_session_new(b.g, &(mf_session_options){ .allow_dirs = allowed, .n_allow_dirs = 1 },
                        &b.s));
    for (int i = 0; i < 3; i++)
        DO(&b, w[i].start);
    DO(&b, w[0].next);
    CANNOT(&b, w[1].next, MF_PERMISSION_DENIED, "--allow-dir");
    CANNOT(&b, w[2].next, MF_PERMISSION_DENIED, "--allow-dir");
    bench_end(&b);
    (void)snprintf(line, sizeof line, "rm %s/in %s/link && rmdir %s", dir, dir, dir);
    T_EQ(system(line), 0);
}

/* ---- memory ---- */

/* All that a pipeline with everything in it gives, added up. */
static mf_status play(mf_graph *g, const walk *w, double *sum)
{
    bench b = { .g = g };
    mf_status st = mf_session_new(g, &(mf_session_options){ .threads = 1 }, &b.s);

    *sum = 0;
    if (st == MF_OK)
        st = run_for(&b, w->start, 0, NULL);
    while (st == MF_OK) {
        mf_tensor *t = NULL;

        st = run_for(&b, w->next, 0, &t);
        for (int64_t i = 0; st == MF_OK && i < mf_tensor_count(t); i++)
            *sum += mf_tensor_float_at(t, i);
        mf_tensor_free(t);
    }
    mf_session_free(b.s);
    return st;
}

static mf_output everything(bench *b)
{
    mf_output set;

    define_triple(b);
    set = map_by(b, range(b, 7), "triple");
    set =
        mf_applyf(b->g, "ShuffleDataset", MF_IN(set, LONG(b, 3), LONG(b, 1), LONG(b, 2)), ANY_LONG);
    set = mf_applyf(b->g, "CacheDataset", MF_IN(set, text(b, "")), ANY_LONG);
    set = mf_applyf(b->g, "RepeatDataset", MF_IN(set, LONG(b, 2)), ANY_LONG);
    set = mf_applyf(b->g, "ConcatenateDataset", MF_IN(set, range(b, 2)), ANY_LONG);
    return mf_applyf(b->g, "BatchDatasetV2",
                     MF_IN(set, LONG(b, 4), mf_scalar(b->g, MF_DTYPE_BOOL, 0)), ANY_LONG);
}

MF_TEST_TIMEOUT(sequence_survives_any_allocation_that_fails, 120)
{
    bench b = bench_new();
    const walk w = over(&b, everything(&b), ANY_LONG);
    const double right = 2 * 3 * 21 + 1;
    double sum = 0;
    int64_t before, all;

    T_OK(mf_graph_status(b.g));
    before = mf_mem_calls();
    T_EQ(play(b.g, &w, &sum), MF_OUT_OF_RANGE);
    T_EQ_F(sum, right);
    all = mf_mem_calls() - before;
    T_TRUE(all > 300);
    for (int64_t nth = 1; nth <= all; nth++) {
        mf_status st;

        mf_mem_fail_at(nth);
        st = play(b.g, &w, &sum);
        mf_mem_fail_at(0);
        T_TRUE(st == MF_RESOURCE_EXHAUSTED || (st == MF_OUT_OF_RANGE && sum == right));
    }
    mf_graph_free(b.g);
}
