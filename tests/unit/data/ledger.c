/* SPDX-License-Identifier: Apache-2.0 */
/* ledger.c - the ledger of samples: writing, truncation on resume, audit, damage. */
#include "data/ledger.h"

#include "base/file.h"
#include "base/mem.h"
#include "mf_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SAMPLES = 50, BATCH = 8 }; /* 7 batches an epoch */

static char dir[32], file[64];

static mf_dataset *begin(void)
{
    static const char *const names[] = { "x" };
    mf_tensor *x;
    mf_dataset *set;

    (void)snprintf(dir, sizeof dir, "/tmp/mf_ledger_XXXXXX");
    T_TRUE(mkdtemp(dir) != NULL);
    (void)snprintf(file, sizeof file, "%s/%s", dir, MF_LEDGER_FILE);
    T_OK(mf_tensor_new(MF_DTYPE_I32, (int64_t[]){ SAMPLES }, 1, &x));
    T_OK(mf_dataset_of(names, (const mf_tensor *const[]){ x }, 1, &set));
    mf_tensor_free(x);
    return set;
}

static void end(mf_dataset *set)
{
    mf_dataset_unref(set);
    unlink(file);
    rmdir(dir);
}

static const mf_iterator_options options = { .batch = BATCH, .seed = 3 };

/* Steps from..to-1 of training, as if resumed at `from`; the ledger stays open until then. */
static void train(mf_dataset *set, int64_t from, int64_t to)
{
    const mf_batch *b;
    mf_iterator *it;
    mf_ledger *l;

    T_OK(mf_iterator_new(set, &options, &it));
    T_OK(mf_iterator_seek(it, from / 7, from % 7 * BATCH));
    T_OK(mf_ledger_open(dir, "toys", set, &options, from - 1, &l));
    for (int64_t step = from; step < to; step++) {
        T_OK(mf_iterator_next(it, &b));
        T_OK(mf_ledger_add(l, step, b, 0));
    }
    T_OK(mf_ledger_flush(l, true));
    T_OK(mf_ledger_close(l));
    mf_iterator_free(it);
}

MF_TEST(data_ledger_of_good_training_has_no_problems)
{
    mf_dataset *set = begin();
    mf_audit a;

    train(set, 0, 17);
    T_OK(mf_ledger_audit(dir, &a));
    T_STREQ(a.name, "toys");
    T_EQ(a.n_problems, 0);
    T_EQ(a.epochs, 2);
    T_EQ(a.running, 3 * BATCH);
    T_EQ(a.samples, 2 * SAMPLES + 3 * BATCH);
    T_TRUE(a.first_step == 0 && a.last_step == 16 && a.torn_at == -1);
    mf_audit_deinit(&a);
    train(set, 17, 21); /* to the end of an epoch */
    T_OK(mf_ledger_audit(dir, &a));
    T_TRUE(a.n_problems == 0 && a.epochs == 3 && a.running == 0);
    mf_audit_deinit(&a);
    end(set);
}

MF_TEST(data_ledger_is_truncated_on_resume)
{
    mf_dataset *set = begin();
    char *once, *resumed;
    size_t n_once, n_resumed;
    mf_ledger *l;

    train(set, 0, 30);
    T_OK(mf_file_read(file, 1 << 20, &once, &n_once));
    for (int64_t at = 0; at <= 30; at += 5) {
        train(set, 0, 26);
        if (at <= 26)
            train(set, at, 30);
        else
            T_FAILS(MF_DATA_LOSS, "ends at step 25, but training resumes after step 29",
                    mf_ledger_open(dir, "toys", set, &options, at - 1, &l));
        T_OK(mf_file_read(file, 1 << 20, &resumed, &n_resumed));
        T_TRUE(at > 26 || (n_once == n_resumed && memcmp(once, resumed, n_once) == 0));
        mf_free(resumed);
    }
    mf_free(once);
    end(set);
}

MF_TEST(data_ledger_of_other_data_is_rejected)
{
    mf_dataset *set = begin(), *part;
    mf_iterator_options other = options;
    mf_ledger *l;
    const mf_batch b = { .n = 0 };

    train(set, 0, 3);
    other.seed = 4;
    T_FAILS(MF_FAILED_PRECONDITION, "with seed 3, but the seed is now 4",
            mf_ledger_open(dir, "toys", set, &other, 2, &l));
    other = options;
    other.slice = MF_SLICE_FILE;
    other.shards = other.n_shards = 4;
    T_FAILS(MF_FAILED_PRECONDITION, "sliced by element, but now it is sliced by file",
            mf_ledger_open(dir, "toys", set, &other, 2, &l));
    T_OK(mf_dataset_range(set, 0, 10, &part));
    T_FAILS(MF_FAILED_PRECONDITION, "50 samples of 50, but now there are 10 of 50",
            mf_ledger_open(dir, "toys", part, &options, 2, &l));
    mf_dataset_unref(part);
    T_OK(mf_ledger_open(dir, "toys", set, &options, 2, &l));
    T_FAILS(MF_INVALID_ARGUMENT, "step 4 does not follow", mf_ledger_add(l, 4, &b, 0));
    T_OK(mf_ledger_close(l));
    T_FAILS(MF_NOT_FOUND, MF_LEDGER_FILE, mf_ledger_open("/nowhere", "x", set, &options, 2, &l));
    T_OK(mf_ledger_open(dir, "toys", set, &other, -1, &l)); /* a new ledger, sliced by file */
    T_OK(mf_ledger_add(l, 1, &b, 0));
    T_OK(mf_ledger_close(l));
    T_OK(mf_ledger_open(dir, "toys", set, &other, 1, &l));
    T_OK(mf_ledger_close(l));
    other.batch = 2 * BATCH;
    T_FAILS(MF_FAILED_PRECONDITION, "have another order",
            mf_ledger_open(dir, "toys", set, &other, 1, &l));
    end(set);
}

/* Steps with the given ids, one epoch each unless `epochs` says otherwise. */
static void write_steps(mf_dataset *set, const int64_t (*ids)[4], const int64_t *epochs, int n)
{
    mf_iterator_options o = { .batch = 4 };
    mf_ledger *l;

    T_OK(mf_ledger_open(dir, "toys", set, &o, -1, &l));
    for (int i = 0; i < n; i++) {
        const mf_batch b = { .n = 4, .epoch = epochs[i], .ids = ids[i] };

        T_OK(mf_ledger_add(l, i, &b, 0));
    }
    T_OK(mf_ledger_close(l));
}

MF_TEST(data_audit_accounts_for_skipped_samples)
{
    static const int64_t ids[][4] = { { 0, 1, 2, 3 }, { 4, 5, 6, 7 }, { 8, 9, 3, 4 } };
    mf_dataset *set = begin(), *part;
    mf_iterator_options o = { .batch = 4 };
    mf_ledger *l;
    mf_audit a;

    T_OK(mf_dataset_range(set, 0, 10, &part));
    T_OK(mf_ledger_open(dir, "toys", part, &o, -1, &l));
    for (int i = 0; i < 3; i++) { /* half of the second and third batch is skipped */
        const mf_batch b = { .n = i == 2 ? 2 : 4, .ids = ids[i] };

        T_OK(mf_ledger_add(l, i, &b, i > 0 ? b.n / 2 : 0));
    }
    T_OK(mf_ledger_close(l));
    T_OK(mf_ledger_audit(dir, &a));
    T_EQ(a.n_problems, 0);
    T_EQ(a.samples, 7);
    T_EQ(a.n_skipped, 3);
    T_EQ(a.epochs, 1);
    mf_audit_deinit(&a);
    T_OK(mf_ledger_open(dir, "toys", part, &o, 1, &l));
    const mf_batch twice = { .n = 4,
                             .ids = ids[2] }; /* 3 and 4 were used before; here they are skipped */

    T_OK(mf_ledger_add(l, 2, &twice, 2));
    T_OK(mf_ledger_close(l));
    T_OK(mf_ledger_audit(dir, &a));
    T_EQ(a.n_problems, 2);
    mf_audit_deinit(&a);
    mf_dataset_unref(part);
    end(set);
}

MF_TEST(data_audit_reports_each_problem)
{
    static const int64_t ids[][4] = {
        { 0, 2, 4, 6 }, { 8, 10, 12, 2 }, { 14, 16, 18, 1 }, { 0, 4, 6, 8 }
    };
    static const int64_t epochs[] = { 0, 0, 0, 1 };
    mf_dataset *set = begin(), *part;
    mf_audit a;

    T_OK(mf_dataset_shard(set, 2, 0, &part)); /* the even ones */
    write_steps(part, ids, epochs, 4);
    T_OK(mf_ledger_audit(dir, &a));
    T_EQ(a.n_problems, 3);
    T_STREQ(a.problems.data,
            "epoch 0, step 1: sample 2 is used a second time\n"
            "epoch 0, step 2: sample 1 does not belong to the set\n"
            "epoch 0: 15 samples are missing: 20, 22, 24, 26, 28, 30, 32, 34, 36, 38, ...\n");
    T_TRUE(a.epochs == 1 && a.running == 4 && a.info.count == 25);
    mf_audit_deinit(&a);
    mf_dataset_unref(part);
    end(set);
}

MF_TEST(data_audit_of_split_shards_and_turns)
{
    mf_dataset *set = begin(), *half[2], *parts[2], *all;
    const mf_iterator_options o = { .batch = 6, .seed = 1, .drop_partial = true };
    const mf_batch *b;
    mf_iterator *it;
    mf_ledger *l;
    mf_audit a;

    T_OK(mf_dataset_split(set, 0.8, 5, &half[0], &half[1]));
    for (int i = 0; i < 2; i++)
        T_OK(mf_dataset_shard(half[0], 2, i, &parts[i]));
    T_OK(mf_dataset_interleave(parts, 2, 3, &all)); /* ids of both parts do not overlap */
    T_OK(mf_iterator_new(all, &o, &it));
    T_OK(mf_ledger_open(dir, "parts", all, &o, -1, &l));
    for (int64_t step = 0; step < 20; step++) {
        T_OK(mf_iterator_next(it, &b));
        T_OK(mf_ledger_add(l, step, b, 0));
    }
    T_OK(mf_ledger_close(l));
    T_OK(mf_ledger_audit(dir, &a));
    T_EQ(a.n_problems, 0);
    T_TRUE(a.epochs == 3 && a.info.count == 40 && a.info.drop_partial);
    mf_audit_deinit(&a);
    mf_iterator_free(it);
    mf_dataset_unref(all);
    for (int i = 0; i < 2; i++) {
        mf_dataset_unref(parts[i]);
        mf_dataset_unref(half[i]);
    }
    end(set);
}

/* Truncated at every byte: the torn end is reported, and training continues from the steps before
 * it. Changed at every byte: DATA_LOSS, or a torn end if the last record is concerned. */
MF_TEST(data_ledger_truncation_or_damage_is_detected_at_any_byte)
{
    mf_dataset *set = begin();
    char *bytes;
    size_t len;
    mf_audit a;

    train(set, 0, 9);
    T_OK(mf_file_read(file, 1 << 20, &bytes, &len));
    for (size_t cut = 0; cut <= len; cut++) {
        mf_status st;

        T_OK(mf_file_write(file, bytes, cut));
        st = mf_ledger_audit(dir, &a);
        T_TRUE(st == MF_OK || (cut < 40 && st == MF_DATA_LOSS));
        if (st == MF_OK) {
            T_EQ(a.n_problems, 0);
            T_TRUE(cut == len ? a.last_step == 8 : a.last_step < 8);
            if (a.last_step >= 2)
                train(set, 2, 9);
        }
        mf_audit_deinit(&a);
    }
    for (size_t at = 0; at < len; at++) {
        mf_status st;

        bytes[at] ^= 0x20;
        T_OK(mf_file_write(file, bytes, len));
        bytes[at] ^= 0x20;
        st = mf_ledger_audit(dir, &a);
        T_TRUE(st == MF_DATA_LOSS);
        mf_audit_deinit(&a);
    }
    mf_free(bytes);
    end(set);
}
