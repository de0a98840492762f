/* SPDX-License-Identifier: Apache-2.0 */
/* store_damage.c - damaged and foreign files in the folder of a store. */
#include "base/file.h"
#include "base/mem.h"
#include "cluster/store/store_file.h"
#include "mf_test.h"
#include "unit/cluster/store/store_folder.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

static void run(const char *format, const store_folder *f)
{
    char command[320];

    (void)snprintf(command, sizeof command, "cd '%s' && %s", f->dir, format);
    T_EQ(system(command), 0);
}

/* A store with something in it. */
static mf_store *begin(store_folder *f)
{
    mf_store *s;

    store_folder_begin(f);
    T_OK(mf_store_open(f->url, NULL, &s));
    T_OK(mf_store_put(s, "a", "value", 5, MF_STORE_NEW, 0, NULL));
    T_OK(mf_store_put(s, "b", "other", 5, MF_STORE_NEW, 0, NULL));
    T_OK(mf_store_remove(s, "b", MF_STORE_ANY));
    return s;
}

static void finish(mf_store *s, const store_folder *f)
{
    mf_store_close(s);
    store_folder_end(f);
}

MF_TEST(cluster_store_file_ignores_foreign_files_and_removes_old_ones)
{
    mf_store_entry e;
    store_folder f;
    mf_store *s = begin(&f), *again;

    run("touch x state/x state/now@x state/now@99 state/now@099~0000000000000001 "
        "state/now@-1~0000000000000001 lease~x lease~7 lease~-1",
        &f);
    run("touch state/data@1~0123456789abcdef state/data@2~x.tmp-abc && mkdir new~1 && touch "
        "new~1/x",
        &f);
    T_OK(mf_store_get(s, "a", &e, NULL));
    T_STREQ(e.value, "value");
    mf_store_entry_deinit(&e);
    T_OK(mf_store_put(s, "c", "", 0, MF_STORE_NEW, 0, NULL));
    T_OK(mf_store_open(f.url, NULL, &again));
    mf_store_close(again);
    run("test $(ls state | grep -c data@) = 1 && test ! -e new~1", &f);
    finish(s, &f);
}

MF_TEST(cluster_store_file_errors_name_a_removed_or_damaged_folder)
{
    static const struct {
        const char *what, *says;
    } cases[] = {
        { "rm -r state", "is missing or incomplete" },
        { "rm state/host", "is missing or incomplete" },
        { "rm -r state && mkdir state && touch state/host", "is missing or incomplete" },
        { "rm state/now@*", "is missing or incomplete" },
        { "rm state/data@*", "is missing or incomplete" },
        { "truncate -s 0 state/data@*", "this is no state of a store" },
        { "truncate -s -1 state/data@*", "checksum differs" },
        { "truncate -s 40M state/data@*", "larger than the limit" },
        { "mv state/now@* state/now@7~0123456789abcdef && "
          "mv state/data@* state/data@7~0123456789abcdef",
          "its contents are of revision 3" },
    };

    for (int i = 0; i < MF_COUNT(cases); i++) {
        mf_store_entry e;
        mf_store_entries l;
        store_folder f;
        mf_store *s = begin(&f);
        mf_status st;

        run(cases[i].what, &f);
        st = mf_store_get(s, "a", &e, NULL);
        T_TRUE(st == MF_DATA_LOSS || st == MF_RESOURCE_EXHAUSTED);
        T_FAILS(st, cases[i].says, mf_store_list(s, "", &l));
        T_FAILS(st, cases[i].says, mf_store_put(s, "a", "", 0, MF_STORE_ANY, 0, NULL));
        T_FAILS(st, cases[i].says, mf_store_remove(s, "a", MF_STORE_ANY));
        T_FAILS(st, cases[i].says, mf_store_wait(s, "a", 100, 0));
        finish(s, &f);
    }
}

/* As if the disk were full. */
static void limit_files(rlim_t bytes)
{
    struct rlimit l;

    T_EQ(getrlimit(RLIMIT_FSIZE, &l), 0);
    l.rlim_cur = bytes;
    T_EQ(setrlimit(RLIMIT_FSIZE, &l), 0);
}

MF_TEST(cluster_store_file_is_unchanged_after_a_failed_write)
{
    mf_store_entry e;
    store_folder f;
    mf_store *s = begin(&f);
    int64_t lease;

    (void)signal(SIGXFSZ, SIG_IGN);
    for (rlim_t bytes = 0; bytes < 45; bytes += 4) {
        limit_files(bytes);
        T_TRUE(mf_store_put(s, "a", "longer than before", 18, MF_STORE_ANY, 0, NULL) != MF_OK);
        T_TRUE(mf_store_lease_grant(s, 1000000000, &lease) != MF_OK);
        limit_files(RLIM_INFINITY);
        T_OK(mf_store_get(s, "a", &e, NULL));
        T_STREQ(e.value, "value");
        mf_store_entry_deinit(&e);
        run("test $(ls state | wc -l) = 3 && test $(ls | wc -l) = 1",
            &f); /* nothing else is there */
    }
    T_OK(mf_store_put(s, "a", "new", 3, MF_STORE_ANY, 0, NULL));
    finish(s, &f);
}

MF_TEST(cluster_store_file_of_another_host_is_refused)
{
    store_folder f;
    mf_store *s = begin(&f), *again;

    run("sed -i '1s/.*/elsewhere/' state/host", &f); /* another name, but the same machine */
    T_OK(mf_store_open(f.url, NULL, &again));
    mf_store_close(again);
    run("sed -i '2s/.*/another-run/' state/host", &f);
    T_FAILS(MF_FAILED_PRECONDITION, "is the store of host 'elsewhere'",
            mf_store_open(f.url, NULL, &again));
    run("sed -i \"1s/.*/$(hostname)/\" state/host", &f); /* this machine after a reboot */
    T_OK(mf_store_open(f.url, NULL, &again));
    mf_store_close(again);
    run("printf x >state/host", &f);
    T_FAILS(MF_DATA_LOSS, "incomplete", mf_store_open(f.url, NULL, &again));
    finish(s, &f);
}

MF_TEST(cluster_store_file_requires_a_private_folder_of_the_user)
{
    store_folder f;
    mf_store *s = begin(&f), *again;

    T_EQ(chmod(f.dir, 0755), 0);
    T_FAILS(MF_PERMISSION_DENIED, "mode 0700", mf_store_open(f.url, NULL, &again));
    T_FAILS(MF_NOT_FOUND, "cannot make", mf_store_open("file:/proc/nowhere/x", NULL, &again));
    T_FAILS(MF_PERMISSION_DENIED, "mode 0700", mf_store_open("file:/proc/version", NULL, &again));
    finish(s, &f);
}

/* ---- the bytes of a state ---- */

static void fill(mf_store_state *s)
{
    char key[16], value[8] = { 0 };

    *s = (mf_store_state){ 0 };
    for (int i = 0; i < 100; i++) {
        mf_store_entry e = { .key = key, .value = value, .size = (size_t)i % 8, .lease = i % 3 };

        (void)snprintf(key, sizeof key, "k/%d", i * 37 % 100);
        T_OK(mf_store_state_put(s, &e, MF_STORE_NEW));
    }
    for (int i = 0; i < 90; i++) {
        (void)snprintf(key, sizeof key, "k/%d", i);
        T_OK(mf_store_state_remove(s, key, MF_STORE_ANY));
    }
}

MF_TEST(cluster_store_state_round_trips)
{
    mf_buf bytes = { 0 }, again = { 0 };
    mf_store_state s, read;

    fill(&s);
    T_EQ(s.all.revision, 190);
    T_EQ(s.forgotten, 126); /* 64 of 90 removals are remembered */
    T_OK(mf_store_state_encode(&s, &bytes));
    T_OK(mf_store_state_decode(bytes.data, bytes.len, &read));
    T_OK(mf_store_state_encode(&read, &again));
    T_TRUE(bytes.len == again.len && memcmp(bytes.data, again.data, bytes.len) == 0);
    T_EQ(read.bytes, s.bytes);
    T_TRUE(mf_store_state_changed(&read, "k/30", 130) &&
           !mf_store_state_changed(&read, "k/30", 131));
    T_TRUE(!mf_store_state_changed(&read, "z", 126) && mf_store_state_changed(&read, "z", 125));
    mf_store_state_deinit(&s);
    mf_store_state_deinit(&read);
    mf_buf_deinit(&bytes);
    mf_buf_deinit(&again);
}

MF_TEST(cluster_store_state_with_a_flipped_bit_or_truncated_is_refused)
{
    mf_buf bytes = { 0 };
    mf_store_state s, read;

    fill(&s);
    T_OK(mf_store_state_encode(&s, &bytes));
    for (size_t i = 0; i < bytes.len * 8; i++) {
        bytes.data[i / 8] = (char)(bytes.data[i / 8] ^ 1 << i % 8);
        T_EQ(mf_store_state_decode(bytes.data, bytes.len, &read), MF_DATA_LOSS);
        bytes.data[i / 8] = (char)(bytes.data[i / 8] ^ 1 << i % 8);
    }
    for (size_t n = 0; n < bytes.len; n++)
        T_EQ(mf_store_state_decode(bytes.data, n, &read), MF_DATA_LOSS);
    mf_store_state_deinit(&s);
    mf_buf_deinit(&bytes);
}

MF_TEST(cluster_store_refuses_values_while_it_is_full)
{
    static char value[MF_STORE_VALUE_MAX];
    mf_store_entry e;
    mf_status st = MF_OK;
    mf_store *s;
    char key[16];
    int n = 0;

    T_OK(mf_store_open("memory:full", NULL, &s));
    for (; st == MF_OK && n < 1000; n++) {
        (void)snprintf(key, sizeof key, "k%d", n);
        st = mf_store_put(s, key, value, sizeof value, MF_STORE_NEW, 0, NULL);
    }
    T_FAILS(MF_RESOURCE_EXHAUSTED, "no space for", st);
    T_TRUE(n > 250 && n < 257);
    T_OK(mf_store_put(s, "k0", "", 0, MF_STORE_ANY, 0, NULL));
    T_OK(mf_store_put(s, key, value, sizeof value - 100, MF_STORE_NEW, 0, NULL));
    T_OK(mf_store_get(s, key, &e, NULL));
    mf_store_entry_deinit(&e);
    mf_store_close(s);
}
