/* SPDX-License-Identifier: Apache-2.0 */
/* data.c - costs of data: opening Fashion-MNIST, a batch of it plain and augmented, a batch of
 * records,
 * a step of the ledger.
 *
 * Estimate: a batch of 128 x 784 bytes is 0.1 MB; at 10 GB/s for scattered rows 10 us.
 * Decompressing 47
 * MB at 0.4 GB/s takes 0.12 s, mapping an unpacked copy and checking it 5 ms. */
#include "base/clock.h"
#include "base/mem.h"
#include "bench.h"
#include "data/convert.h"
#include "data/ledger.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROUNDS = 5, BATCH = 128, BATCHES = 400 };

static void report(const char *subject, const char *size, double *us)
{
    sort(us, ROUNDS);
    printf("%-34s %-12s %10.1f %10.1f us\n", subject, size, us[ROUNDS / 2], us[ROUNDS - 1]);
}

static double since(int64_t start)
{
    return (double)(mf_clock_ns() - start) / 1e3;
}

static void first_batch(const char *subject)
{
    double us[ROUNDS];

    for (int r = 0; r < ROUNDS; r++) {
        const int64_t start = mf_clock_ns();
        const mf_batch *b;
        mf_dataset *set;
        mf_iterator *it;

        must(mf_dataset_open("fashion-mnist", NULL, &set));
        must(mf_iterator_new(set, &(mf_iterator_options){ .batch = BATCH }, &it));
        must(mf_iterator_next(it, &b));
        us[r] = since(start);
        mf_iterator_free(it);
        mf_dataset_unref(set);
    }
    report(subject, "47 MB", us);
}

static void batches(const char *subject, mf_dataset *set, int n, int threads)
{
    double us[ROUNDS];
    mf_iterator *it;
    const mf_batch *b;

    must(mf_iterator_new(set, &(mf_iterator_options){ .batch = BATCH, .threads = threads }, &it));
    must(mf_iterator_next(it, &b));
    for (int r = 0; r < ROUNDS; r++) {
        const int64_t start = mf_clock_ns();

        for (int i = 0; i < n; i++)
            must(mf_iterator_next(it, &b));
        us[r] = since(start) / n;
    }
    report(subject, "128", us);
    mf_iterator_free(it);
}

static void ledger(mf_dataset *set, const char *dir)
{
    const mf_iterator_options o = { .batch = BATCH };
    double us[ROUNDS];
    const mf_batch *b;
    mf_iterator *it;
    mf_ledger *l;

    must(mf_iterator_new(set, &o, &it));
    must(mf_ledger_open(dir, "bench", set, &o, -1, &l));
    must(mf_iterator_next(it, &b));
    for (int r = 0; r < ROUNDS; r++) {
        const int64_t start = mf_clock_ns();

        for (int i = 0; i < BATCHES; i++)
            must(mf_ledger_add(l, r * BATCHES + i, b, 0));
        us[r] = since(start) / BATCHES;
    }
    report("ledger of a step", "128", us);
    must(mf_ledger_close(l));
    mf_iterator_free(it);
}

int main(void)
{
    char dir[] = "/tmp/mf_bench_XXXXXX", path[64];
    mf_dataset *set, *augmented, *records;

    must(mf_dataset_open("fashion-mnist", NULL, &set));
    batches("Fashion-MNIST, batch", set, BATCHES, 1);
    first_batch("Fashion-MNIST, open to first batch");
    must(
        mf_dataset_augment(set, "crop=2 flip=true cutout=4 mean=[0.29] std=[0.35]", 1, &augmented));
    batches("... augmented", augmented, BATCHES, 1);
    batches("... augmented by two threads", augmented, BATCHES, 2);
    if (!mkdtemp(dir))
        return 1;
    ledger(set, dir);
    (void)snprintf(path, sizeof path, "%s/a.tfrecord", dir);
    must(mf_dataset_range(set, 0, 10000, &records));
    must(mf_dataset_to_records(records, path, MF_PLAIN));
    mf_dataset_unref(records);
    must(mf_dataset_open(path, NULL, &records));
    batches("tf.Examples of it, batch", records, BATCHES / 4, 1);
    unlink(path);
    (void)snprintf(path, sizeof path, "%s/%s", dir, MF_LEDGER_FILE);
    unlink(path);
    rmdir(dir);
    mf_dataset_unref(records);
    mf_dataset_unref(augmented);
    mf_dataset_unref(set);
    return 0;
}
