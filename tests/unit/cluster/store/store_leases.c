/* SPDX-License-Identifier: Apache-2.0 */
/* store_leases.c - leases of a store in a folder whose holders are killed or stopped. */
#include "base/clock.h"
#include "cluster/store/store_file.h"
#include "mf_test.h"
#include "unit/cluster/store/store_conform.h"
#include "unit/cluster/store/store_folder.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { LONG_MS = 30000 };

static const int64_t HOUR_NS = 3600 * INT64_C(1000000000);

/* The state of a holder, in shared memory. */
typedef struct holder {
    pid_t pid;
    atomic_bool holds, lost; /* it has put its value; its lease has ended */
    atomic_llong lease;
} holder;

/* A process that puts `key` under a lease of its own and keeps it until it is lost. */
static holder *start_holder(const char *url, const char *key, int64_t ttl_ns)
{
    holder *h = mmap(NULL, sizeof *h, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int64_t lease;
    mf_store *s;
    mf_status st = MF_OK;
    pid_t pid;

    T_TRUE(h != MAP_FAILED);
    pid = fork();
    if (pid == 0) {
        T_OK(mf_store_open(url, NULL, &s));
        T_OK(mf_store_lease_grant(s, ttl_ns, &lease));
        T_OK(mf_store_put(s, key, "mine", 4, MF_STORE_NEW, lease, NULL));
        atomic_store(&h->lease, lease);
        atomic_store(&h->holds, true);
        while (st == MF_OK) {
            usleep(5000);
            st = mf_store_lease_keep(s, lease);
        }
        T_EQ(st, MF_FAILED_PRECONDITION);
        atomic_store(&h->lost, true);
        _exit(0);
    }
    h->pid = pid;
    for (int i = 0; i < LONG_MS && !atomic_load(&h->holds); i++)
        usleep(1000);
    T_TRUE(atomic_load(&h->holds));
    return h;
}

static void end_holder(holder *h)
{
    (void)kill(h->pid, SIGKILL);
    T_EQ(waitpid(h->pid, NULL, 0), h->pid);
    (void)munmap(h, sizeof *h);
}

static int64_t version_of(mf_store *s, const char *key)
{
    mf_store_entry e;
    int64_t version;

    T_OK(mf_store_get(s, key, &e, NULL));
    version = e.version;
    mf_store_entry_deinit(&e);
    return version;
}

MF_TEST(cluster_store_file_lease_of_a_killed_process_ends_at_once)
{
    mf_store_entry e;
    store_folder f;
    holder *h;
    mf_store *s;
    int64_t version;

    store_folder_begin(&f);
    T_OK(mf_store_open(f.url, NULL, &s));
    h = start_holder(f.url, "leader", HOUR_NS);
    version = version_of(s, "leader");
    T_FAILS(MF_ABORTED, "exists", mf_store_put(s, "leader", "", 0, MF_STORE_NEW, 0, NULL));
    T_EQ(kill(h->pid, SIGKILL), 0);
    T_OK(
        mf_store_wait(s, "leader", version, store_in_ms(LONG_MS))); /* much earlier than its hour */
    T_FAILS(MF_NOT_FOUND, "'leader'", mf_store_get(s, "leader", &e, NULL));
    T_OK(mf_store_put(s, "leader", "next", 4, MF_STORE_NEW, 0, NULL));
    end_holder(h);
    mf_store_close(s);
    store_folder_end(&f);
}

/* Long before the lease expires, because the kernel reports that the process is stopped. */
MF_TEST(cluster_store_file_lease_of_a_stopped_process_expires_permanently)
{
    mf_store_entry e;
    store_folder f;
    holder *h;
    mf_store *s;
    int64_t version;

    store_folder_begin(&f);
    T_OK(mf_store_open(f.url, NULL, &s));
    h = start_holder(f.url, "leader", HOUR_NS);
    version = version_of(s, "leader");
    usleep(200000);
    T_EQ(version_of(s, "leader"), version); /* the holder renews it */
    T_EQ(kill(h->pid, SIGSTOP), 0);
    T_OK(mf_store_wait(s, "leader", version, store_in_ms(LONG_MS)));
    T_OK(mf_store_put(s, "leader", "next", 4, MF_STORE_NEW, 0, &version));
    T_EQ(kill(h->pid, SIGCONT), 0);
    for (int i = 0; i < LONG_MS && !atomic_load(&h->lost); i++)
        usleep(1000);
    T_TRUE(atomic_load(&h->lost)); /* the holder was notified */
    T_OK(mf_store_get(s, "leader", &e, NULL));
    T_STREQ(e.value, "next");
    T_EQ(e.version, version);
    mf_store_entry_deinit(&e);
    end_holder(h);
    mf_store_close(s);
    store_folder_end(&f);
}

/* Writes the negated number of a lease once it sees it expired. */
static _Noreturn void watch_lease(const mf_store_folder *folder, atomic_llong *now)
{
    for (;;) {
        long long id = atomic_load(now);

        if (id > 0 && mf_store_lease_look(folder, id, NULL) != MF_OK)
            (void)atomic_compare_exchange_strong(now, &id, -id);
    }
}

/* A holder renews its lease repeatedly at the last moment while another process checks it. After
 * the other process has seen it expired, a renewal must fail. */
MF_TEST(cluster_store_file_lease_expires_for_all_processes_or_for_none)
{
    mf_store_folder folder;
    store_folder f;
    atomic_llong *now =
        mmap(NULL, sizeof *now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t other;

    T_TRUE(now != MAP_FAILED);
    store_folder_begin(&f);
    T_OK(mf_store_folder_open(f.dir, &folder));
    other = fork();
    if (other == 0)
        watch_lease(&folder, now);
    for (int i = 0; i < 100; i++) {
        int64_t id;
        mf_status st = MF_OK;

        T_OK(mf_store_lease_make(&folder, 2000000, &id));
        atomic_store(now, id);
        for (int k = 0; k < 20 && st == MF_OK; k++) {
            const bool over = atomic_load(now) < 0;

            usleep((useconds_t)(rand() % 2000));
            st = mf_store_lease_renew(&folder, id);
            T_TRUE(!over || st != MF_OK);
        }
        atomic_store(now, 0);
        T_OK(mf_store_lease_finish(&folder, id));
        T_FAILS(MF_FAILED_PRECONDITION, "ended", mf_store_lease_renew(&folder, id));
    }
    T_EQ(waitpid(other, NULL, WNOHANG), 0);
    T_EQ(kill(other, SIGKILL), 0);
    T_EQ(waitpid(other, NULL, 0), other);
    mf_store_folder_deinit(&folder);
    store_folder_end(&f);
}

MF_TEST(cluster_store_file_expired_leases_leave_no_files)
{
    store_folder f;
    char command[160];
    int64_t lease;
    mf_store *s;

    store_folder_begin(&f);
    T_OK(mf_store_open(f.url, NULL, &s));
    end_holder(start_holder(f.url, "a", HOUR_NS));
    T_OK(mf_store_lease_grant(s, 1, &lease)); /* nothing is put under it */
    mf_store_close(s);
    T_OK(mf_store_open(f.url, NULL, &s));
    (void)snprintf(command, sizeof command, "test -z \"$(ls '%s' | grep lease)\"", f.dir);
    T_EQ(system(command), 0);
    mf_store_close(s);
    store_folder_end(&f);
}

/* ---- leases that are not what they should be ---- */

static mf_store_lease read_lease(const store_folder *f, int64_t id, char path[160])
{
    mf_store_lease l = { 0 };
    FILE *file;

    (void)snprintf(path, 160, "%s/lease~%lld", f->dir, (long long)id);
    file = fopen(path, "r");
    T_TRUE(file && fread(&l, sizeof l, 1, file) == 1 && fclose(file) == 0);
    return l;
}

static void write_lease(const char *path, const mf_store_lease *l, size_t n)
{
    FILE *file = fopen(path, "w");

    T_TRUE(file && fwrite(l, 1, n, file) == n && fclose(file) == 0);
}

MF_TEST(cluster_store_file_lease_has_ended_if_expired_or_damaged_or_of_another_boot)
{
    store_folder f;
    mf_store *s;

    store_folder_begin(&f);
    T_OK(mf_store_open(f.url, NULL, &s));
    for (int i = 0; i < 8; i++) {
        mf_store_lease l;
        mf_store_entry e;
        int64_t lease;
        char path[160];

        T_OK(mf_store_lease_grant(s, HOUR_NS, &lease));
        T_OK(mf_store_put(s, "x", "", 0, MF_STORE_NEW, lease, NULL));
        l = read_lease(&f, lease, path);
        l.boot[0] = (char)(l.boot[0] ^ (i == 0));
        l.start += i == 1; /* another process with the same PID */
        l.magic[0] = (char)(l.magic[0] ^ (i == 2));
        l.id += i == 3;
        l.pid_space += i == 4; /* another container: only the time is checked */
        if (i >= 6)
            atomic_store(&l.until_ns, i - 6); /* expired and marked as such, or not yet marked */
        write_lease(path, &l, i == 5 ? sizeof l - 1 : sizeof l);
        if (i == 4) {
            T_OK(mf_store_lease_keep(s, lease));
            T_OK(mf_store_lease_end(s, lease));
            continue;
        }
        T_FAILS(MF_FAILED_PRECONDITION, "has ended", mf_store_lease_keep(s, lease));
        T_FAILS(MF_NOT_FOUND, "'x'", mf_store_get(s, "x", &e, NULL));
    }
    mf_store_close(s);
    store_folder_end(&f);
}
