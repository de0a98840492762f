/* SPDX-License-Identifier: Apache-2.0 */
/* shm_segment.c - shared memory and waiting in it. It contains no locks, so a member that dies
 * cannot block the others; `check` or the deadline reports its absence. */
#include "collective/shm_segment.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/param.h"
#include "base/spin.h"
#include "observe/wait_report.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const uint64_t MAGIC = 0x6d66736567303100; /* "mfseg01" */

MF_PARAM_INT(comm_spin_rounds, 5000,
             "maximum polls of another member's word before a member sleeps");
MF_PARAM_INT(comm_health_check_ms, 20, "interval of health checks while a member waits, in ms");

/* Slots begin on cache lines, and have room for at least one element of every part of a sum, or for
 * every member. */
static int64_t round_area(int ranks, int64_t area)
{
    const int64_t line = 64 * MF_SEGMENT_SLOTS;
    const int64_t least = (4096 + 128 * (int64_t)ranks) * MF_SEGMENT_SLOTS;

    return area < least ? least : (area + line - 1) / line * line;
}

static size_t bytes_needed(int ranks, int64_t area)
{
    const size_t head =
        (sizeof(mf_segment_header) + (size_t)ranks * sizeof(mf_segment_words) + 4095) &
        ~(size_t)4095;

    return head + (size_t)(ranks + 1) * (size_t)area;
}

/* The processors that this process may use, which can be fewer than exist. */
static int processors(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                       : (int)sysconf(_SC_NPROCESSORS_ONLN);
}

static mf_status map(int fd, int ranks, int64_t area, mf_segment **out)
{
    mf_segment *s = mf_calloc(1, sizeof *s);

    if (!s)
        return MF_NOMEM("shared memory");
    s->bytes = bytes_needed(ranks, area);
    s->ranks = ranks;
    s->area = area;
    s->room = area / MF_SEGMENT_SLOTS - (int64_t)sizeof(mf_segment_slot);
    s->oversubscribed = ranks > processors();
    s->head = mmap(NULL, s->bytes, PROT_READ | PROT_WRITE,
                   fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
    if (s->head == MAP_FAILED) {
        mf_free(s);
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot allocate %zu bytes of shared memory: %s",
                       bytes_needed(ranks, area), strerror(errno));
    }
    *out = s;
    return MF_OK;
}

static void fill_head(mf_segment *s, int ranks)
{
    s->head->ranks = (uint32_t)ranks;
    s->head->area = (uint64_t)s->area;
    s->head->magic = MAGIC;
}

mf_status mf_segment_new(int ranks, int64_t area, mf_segment **out)
{
    *out = NULL;
    area = round_area(ranks, area);
    MF_TRY(map(-1, ranks, area, out));
    fill_head(*out, ranks);
    return MF_OK;
}

static mf_status named(mf_segment *s, const char *name)
{
    s->name = mf_strdup(name);
    if (s->name)
        return MF_OK;
    mf_segment_free(s);
    return MF_NOMEM("shared memory");
}

mf_status mf_segment_create(const char *name, int ranks, int64_t wanted, mf_segment **out)
{
    const int64_t area = round_area(ranks, wanted);
    const int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    mf_segment *s = NULL;
    mf_status st;

    *out = NULL;
    if (fd < 0)
        return mf_errno_status(errno, "make shared memory", name);
    st = posix_fallocate(fd, 0, (off_t)bytes_needed(ranks, area)) == 0
             ? map(fd, ranks, area, &s)
             : MF_FAIL(MF_RESOURCE_EXHAUSTED,
                       "/dev/shm has no space for %zu bytes; enlarge it (mount -o "
                       "remount,size=... /dev/shm)",
                       bytes_needed(ranks, area));
    close(fd);
    if (st == MF_OK) {
        fill_head(s, ranks);
        st = named(s, name);
    }
    if (st != MF_OK)
        shm_unlink(name);
    else
        *out = s;
    return st;
}

mf_status mf_segment_open(const char *name, int ranks, int64_t wanted, mf_segment **out)
{
    const int64_t area = round_area(ranks, wanted);
    const int fd = shm_open(name, O_RDWR | O_CLOEXEC, 0600);
    mf_segment *s = NULL;
    struct stat about;
    mf_status st;

    *out = NULL;
    if (fd < 0)
        return mf_errno_status(errno, "open shared memory", name);
    if (fstat(fd, &about) != 0 || about.st_uid != geteuid() ||
        about.st_size != (off_t)bytes_needed(ranks, area))
        st =
            MF_FAIL(MF_FAILED_PRECONDITION, "shared memory %s was created for another group", name);
    else
        st = map(fd, ranks, area, &s);
    close(fd);
    MF_TRY(st);
    if (s->head->magic != MAGIC || s->head->ranks != (uint32_t)ranks) {
        mf_segment_free(s);
        return MF_FAIL(MF_FAILED_PRECONDITION, "shared memory %s was created for another group",
                       name);
    }
    MF_TRY(named(s, name));
    *out = s;
    return MF_OK;
}

void mf_segment_unlink(const mf_segment *s)
{
    if (s->name)
        shm_unlink(s->name);
}

void mf_segment_free(mf_segment *s)
{
    if (!s)
        return;
    munmap(s->head, s->bytes);
    mf_free(s->name);
    mf_free(s);
}

/* ---- waiting ---- */

static void futex_wake(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 1 << 30, NULL, NULL, 0);
}

static void futex_wait(atomic_uint *word, unsigned value, int64_t ns)
{
    const struct timespec limit = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };

    syscall(SYS_futex, word, FUTEX_WAIT, value, &limit, NULL, 0);
}

void mf_segment_wake(mf_segment *s)
{
    for (int r = 0; r < s->ranks; r++) {
        mf_segment_words *w = &s->head->words[r];

        futex_wake(&w->posted);
        futex_wake(&w->reduced);
        futex_wake(&w->finished);
    }
}

void mf_segment_set(mf_segment *s, int rank, atomic_uint *word, unsigned turn)
{
    atomic_store(word, turn); /* stored before sleepers are read; sleepers increment before they
                                 read it */
    if (atomic_load(&s->head->words[rank].sleepers) > 0)
        futex_wake(word);
}

/* Check the word again after a failed health check: the member may have arrived and ended
 * meanwhile. */
static mf_status shm_segment_check(const mf_group *g, mf_group_wait *w, atomic_uint *word,
                                   unsigned turn)
{
    const mf_status st = g->check ? g->check(g->ctx, w) : mf_group_in_time(g, w);

    return st != MF_OK && mf_segment_reached(word, turn) ? MF_OK : st;
}

/* Waits that end at once teach nothing. */
static bool poll_word(const mf_segment *s, atomic_uint *word, unsigned turn)
{
    enum { LEAST = 50 };
    static _Thread_local mf_spin spin;
    int64_t limit;

    if (mf_segment_reached(word, turn))
        return true;
    limit = mf_spin_limit(&spin, LEAST, s->oversubscribed ? LEAST : MF_PARAM(comm_spin_rounds));
    for (int64_t i = 0; i < limit; i++) {
        if (mf_segment_reached(word, turn)) {
            mf_spin_learn(&spin, i, true);
            return true;
        }
        mf_spin_pause();
    }
    mf_spin_learn(&spin, limit, false);
    return mf_segment_reached(word, turn);
}

mf_status mf_segment_wait(mf_segment *s, const mf_group *g, const mf_collective *c, int rank,
                          atomic_uint *word, unsigned turn)
{
    const int64_t nap =
        MF_PARAM(comm_health_check_ms) > 0 ? MF_PARAM(comm_health_check_ms) * 1000000 : 1000000;
    atomic_uint *sleepers = &s->head->words[rank].sleepers;
    mf_group_wait wait = { .call = c, .rank = rank };
    mf_wait_report waiting = {
        .who = g->names[g->rank], .whom = g->names[rank], .what = c->what, .step = c->step
    };
    mf_status st = MF_OK;

    if (poll_word(s, word, turn))
        return MF_OK;
    wait.since = mf_clock_ns();
    mf_wait_report_begin(&waiting);
    atomic_fetch_add(sleepers, 1);
    for (;;) {
        const unsigned now = atomic_load(word);

        if ((int)(now - turn) >= 0)
            break;
        st = shm_segment_check(g, &wait, word, turn);
        if (st != MF_OK)
            break;
        mf_wait_report_check(&waiting);
        futex_wait(word, now, nap);
    }
    atomic_fetch_sub(sleepers, 1);
    mf_wait_report_end(&waiting, st == MF_OK);
    return st;
}
