/* SPDX-License-Identifier: Apache-2.0 */
/* reader.c - readers that wait for file names. tests/tf/reading.py compares what they read. */
#include "unit/ops/bench_graph.h"

#include <pthread.h>
#include <time.h>

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

typedef struct names {
    mf_output put, close, read, records, reset;
} names;

/* A reader that gives the names themselves. */
static names of_names(bench *b)
{
    const mf_output q = mf_applyf(b->g, "FIFOQueueV2", MF_NO_IN,
                                  "component_types=[string] shapes=[shape[]] capacity=8"),
                    r = mf_apply(b->g, "IdentityReaderV2", MF_NO_IN);

    return (names){ .put = mf_apply(b->g, "QueueEnqueueV2", MF_IN(q, text(b, "n"))),
                    .close = mf_apply(b->g, "QueueCloseV2", MF_IN(q)),
                    .read = mf_apply(b->g, "ReaderReadV2", MF_IN(r, q)),
                    .records = mf_apply(b->g, "ReaderNumRecordsProducedV2", MF_IN(r)),
                    .reset = mf_apply(b->g, "ReaderResetV2", MF_IN(r)) };
}

typedef struct waiting {
    bench *b;
    mf_output x;
    int64_t timeout_ms;
    mf_status status;
    pthread_t thread;
} waiting;

static void *wait_for_it(void *arg)
{
    waiting *w = arg;

    w->status = run_for(w->b, w->x, w->timeout_ms, NULL);
    return NULL;
}

static void begin(waiting *w, bench *b, mf_output x, int64_t timeout_ms)
{
    *w = (waiting){ .b = b, .x = x, .timeout_ms = timeout_ms };
    T_EQ(pthread_create(&w->thread, NULL, wait_for_it, w), 0);
}

static void pause_ms(long ms)
{
    (void)nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

MF_TEST(reader_waits_for_names_and_serves_in_order)
{
    bench b = bench_new();
    const names n = of_names(&b);
    waiting w[6]; /* more than the session has threads */

    bench_start(&b);
    for (int i = 0; i < MF_COUNT(w); i++)
        begin(&w[i], &b, n.read, 20000);
    pause_ms(30);
    CANNOT(&b, n.reset, MF_FAILED_PRECONDITION, "while it reads");
    for (int i = 0; i < MF_COUNT(w); i++)
        DO(&b, n.put);
    for (int i = 0; i < MF_COUNT(w); i++) {
        (void)pthread_join(w[i].thread, NULL);
        T_OK(w[i].status);
    }
    T_EQ(VALUE(&b, n.records), MF_COUNT(w));
    DO(&b, n.reset);
    T_EQ(VALUE(&b, n.records), 0);
    DO(&b, n.close);
    CANNOT(&b, n.read, MF_OUT_OF_RANGE, "is closed and has insufficient elements");
    bench_end(&b);
}

MF_TEST(reader_timeout_lets_the_next_read_proceed)
{
    bench b = bench_new();
    const names n = of_names(&b);
    waiting first, behind, last;

    bench_start(&b);
    begin(&first, &b, n.read, 150);
    pause_ms(30);
    begin(&behind, &b, n.read, 50); /* ends while the first still waits */
    pause_ms(30);
    begin(&last, &b, n.read, 20000);
    (void)pthread_join(behind.thread, NULL);
    (void)pthread_join(first.thread, NULL);
    T_EQ(behind.status, MF_DEADLINE_EXCEEDED);
    T_EQ(first.status, MF_DEADLINE_EXCEEDED);
    DO(&b, n.put);
    (void)pthread_join(last.thread, NULL);
    T_OK(last.status);
    bench_end(&b);
}

MF_TEST(reader_wait_ends_with_its_session)
{
    bench b = bench_new();
    const names n = of_names(&b);
    waiting w[3];

    bench_start(&b);
    for (int i = 0; i < MF_COUNT(w); i++)
        begin(&w[i], &b, n.read, 0);
    for (int i = 0; i < MF_COUNT(w); i++) {
        while (pthread_tryjoin_np(w[i].thread, NULL) != 0) { /* its run may begin late */
            mf_session_cancel(b.s);
            pause_ms(2);
        }
        T_EQ(w[i].status, MF_CANCELLED);
    }
    bench_end(&b);
}

MF_TEST(files_outside_the_allowed_directories_are_neither_read_nor_written_nor_listed)
{
    bench b = bench_new();
    const mf_output read = mf_apply(b.g, "ReadFile", MF_IN(text(&b, "/etc/passwd"))),
                    write = mf_apply(b.g, "WriteFile",
                                     MF_IN(text(&b, "/tmp/mf-not-allowed/x"), text(&b, "x"))),
                    match = mf_apply(b.g, "MatchingFiles", MF_IN(text(&b, "/etc/pass*"))),
                    whole = mf_apply(b.g, "MatchingFiles", MF_IN(text(&b, "/etc/passwd")));

    bench_start(&b);
    CANNOT(&b, read, MF_PERMISSION_DENIED, "--allow-dir");
    CANNOT(&b, write, MF_PERMISSION_DENIED, "--allow-dir");
    CANNOT(&b, match, MF_PERMISSION_DENIED, "--allow-dir");
    CANNOT(&b, whole, MF_PERMISSION_DENIED, "--allow-dir");
    bench_end(&b);
}
