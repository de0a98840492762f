/* SPDX-License-Identifier: Apache-2.0 */
/* store_races.c - processes that race for one key of a store in a folder while they are killed and
 * stopped at random moments. */
#include "base/clock.h"
#include "cluster/store/store.h"
#include "mf_test.h"
#include "unit/cluster/store/store_folder.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { RACERS = 6, ROUNDS = 150, WINS_MAX = 1 << 20, HANG_MS = 30000 };

/* Every value is written once: it encodes its writer and how many values that process wrote before.
 * The journal is in shared memory: what each process read before its put, and the result of the
 * put. */
typedef struct journal {
    atomic_int written; /* values */
    atomic_int wins; /* that were reported */
    struct {
        atomic_llong version; /* the result of its put; 0: none yet, or it lost */
        int64_t before; /* the version it replaced */
        int64_t
            before_value; /* and the value it replaced: an index into this list, from 1; 0: none */
        bool ended; /* the call returned */
    } put[WINS_MAX];
} journal;

static void race_once(mf_store *s, journal *j)
{
    const int64_t mine = atomic_fetch_add(&j->written, 1) + 1;
    int64_t version = 0, seen = 0, expected = MF_STORE_NEW;
    mf_store_entry e;
    mf_status st;

    T_TRUE(mine < WINS_MAX);
    st = mf_store_get(s, "prize", &e, NULL);
    if (st == MF_OK) {
        T_EQ(e.size, sizeof seen);
        memcpy(&seen, e.value, sizeof seen);
        expected = e.version;
    } else {
        T_EQ(st, MF_NOT_FOUND);
    }
    mf_store_entry_deinit(&e);
    j->put[mine].before = expected;
    j->put[mine].before_value = seen;
    st = mf_store_put(s, "prize", &mine, sizeof mine, expected, 0, &version);
    if (st != MF_ABORTED) {
        T_OK(st);
        atomic_store(&j->put[mine].version, version);
        atomic_fetch_add(&j->wins, 1);
    }
    j->put[mine].ended = true;
}

static pid_t start_racer(const char *url, journal *j)
{
    const pid_t pid = fork();
    mf_store *s;

    if (pid != 0)
        return pid;
    T_OK(mf_store_open(url, NULL, &s));
    for (;;)
        race_once(s, j);
}

/* From the last value back to the first: each replaced the value that its writer had read, and
 * every process that was reported a win is among the writers. */
static void check_chain(mf_store *s, const journal *j)
{
    int64_t value = 0, version, winners = 0;
    mf_store_entry e;

    T_OK(mf_store_get(s, "prize", &e, NULL));
    memcpy(&value, e.value, sizeof value);
    version = e.version;
    mf_store_entry_deinit(&e);
    while (value != 0) {
        const int64_t told = atomic_load(&j->put[value].version);

        T_TRUE(value > 0 && value < WINS_MAX);
        T_TRUE(told == version || (told == 0 && !j->put[value].ended)); /* it was killed */
        winners += told != 0;
        T_TRUE(j->put[value].before < version);
        version = j->put[value].before;
        value = j->put[value].before_value;
    }
    T_EQ(version, MF_STORE_NEW);
    T_EQ(winners, atomic_load(&j->wins));
    T_TRUE(winners > ROUNDS);
}

/* While one process is stopped, the others continue. */
static void stop_a_while(pid_t pid, const journal *j)
{
    const int before = atomic_load(&j->wins);
    const int64_t until = mf_clock_ns() + HANG_MS * INT64_C(1000000);

    T_EQ(kill(pid, SIGSTOP), 0);
    while (atomic_load(&j->wins) < before + 3 && mf_clock_ns() < until)
        usleep(200);
    T_TRUE(atomic_load(&j->wins) >= before + 3);
    T_EQ(kill(pid, SIGCONT), 0);
}

MF_TEST_TIMEOUT(cluster_store_file_each_revision_has_one_winner_despite_kills_and_stops, 120)
{
    journal *j = mmap(NULL, sizeof *j, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pid_t racers[RACERS];
    store_folder f;
    mf_store *s;

    T_TRUE(j != MAP_FAILED);
    srand(1);
    store_folder_begin(&f);
    T_OK(mf_store_open(f.url, NULL, &s));
    for (int i = 0; i < RACERS; i++)
        racers[i] = start_racer(f.url, j);
    for (int i = 0; i < ROUNDS; i++) {
        const int k = rand() % RACERS;

        usleep((useconds_t)(rand() % 3000));
        if (rand() % 2) {
            stop_a_while(racers[k], j);
            continue;
        }
        T_EQ(kill(racers[k], SIGKILL), 0);
        T_EQ(waitpid(racers[k], NULL, 0), racers[k]);
        racers[k] = start_racer(f.url, j);
    }
    for (int i = 0; i < RACERS; i++) {
        int status;

        T_EQ(kill(racers[i], SIGKILL), 0);
        T_EQ(waitpid(racers[i], &status, 0), racers[i]);
        T_TRUE(WIFSIGNALED(status)); /* none has failed */
    }
    check_chain(s, j);
    mf_store_close(s);
    store_folder_end(&f);
}

/* Processes that open a store that does not exist yet find the same one. */
static void open_and_count(const char *url)
{
    mf_store *s;
    char key[32];

    T_OK(mf_store_open(url, NULL, &s));
    (void)snprintf(key, sizeof key, "here/%d", (int)getpid());
    T_OK(mf_store_put(s, key, "", 0, MF_STORE_NEW, 0, NULL));
    mf_store_close(s);
}

MF_TEST(cluster_store_file_is_created_once_by_concurrent_processes)
{
    enum { OPENERS = 8 };

    for (int round = 0; round < 20; round++) {
        mf_store_entries l;
        store_folder f;
        mf_store *s;

        store_folder_begin(&f);
        for (int i = 0; i < OPENERS; i++) {
            if (fork() == 0) {
                open_and_count(f.url);
                _exit(0);
            }
        }
        for (int i = 0; i < OPENERS; i++) {
            int status;

            T_TRUE(wait(&status) > 0);
            T_EQ(status, 0);
        }
        T_OK(mf_store_open(f.url, NULL, &s));
        T_OK(mf_store_list(s, "here/", &l));
        T_EQ(l.n, OPENERS);
        mf_store_entries_deinit(&l);
        mf_store_close(s);
        store_folder_end(&f);
    }
}
