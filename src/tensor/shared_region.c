/* SPDX-License-Identifier: Apache-2.0 */
/* shared_region.c - see shared_region.h. The region is an unnamed file, far larger than memory, of
 * which only the used pages exist. Blocks are allocated from its end; freed blocks are reused for
 * the same size. */
#include "tensor/shared_region.h"

#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096 };
#define REGION_SIZE ((size_t)1 << 38)

/* A freed block. */
typedef struct free_block {
    struct free_block *next;
    size_t offset, size;
} free_block;

static struct {
    pthread_mutex_t lock;
    _Atomic(char *) base; /* NULL: there is none; set once, after fd */
    int fd;
    size_t used; /* allocated so far; guarded by lock */
    free_block *free_list; /* guarded by lock */
} region = { .lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1 };

static char *base_of_region(void)
{
    return atomic_load_explicit(&region.base, memory_order_acquire);
}

static bool map_region(void)
{
    const int fd = memfd_create("meshflow-tensors", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    void *base;

    if (fd < 0)
        return false;
    if (ftruncate(fd, (off_t)REGION_SIZE) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) {
        (void)close(fd);
        return false;
    }
    base = mmap(NULL, REGION_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED) {
        (void)close(fd);
        return false;
    }
    (void)madvise(base, REGION_SIZE, MADV_DONTFORK); /* otherwise a child would write to our
                                                        tensors */
    region.fd = fd;
    atomic_store_explicit(&region.base, base, memory_order_release);
    return true;
}

void mf_shared_region_open(void)
{
    pthread_mutex_lock(&region.lock);
    if (!base_of_region() && !map_region())
        MF_INFO("tensors are copied between tasks of this host: shared memory is unavailable: %s",
                strerror(errno));
    pthread_mutex_unlock(&region.lock);
}

int mf_shared_region_fd(void)
{
    return base_of_region() ? region.fd : -1;
}

bool mf_shared_region_find(const void *data, uint64_t *offset)
{
    const uintptr_t base = (uintptr_t)base_of_region(), at = (uintptr_t)data;

    *offset = at - base;
    return base != 0 && at >= base && at - base < REGION_SIZE;
}

static size_t pages_of(size_t bytes)
{
    return (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
}

/* The caller holds the lock. */
static char *reuse(size_t size)
{
    for (free_block **at = &region.free_list; *at; at = &(*at)->next) {
        free_block *h = *at;

        if (h->size == size) {
            char *block = base_of_region() + h->offset;

            *at = h->next;
            mf_free(h);
            return block;
        }
    }
    return NULL;
}

void *mf_shared_region_take(size_t bytes)
{
    const size_t size = pages_of(bytes);
    char *base = base_of_region(), *block;

    if (!base || bytes < MF_SHARED_REGION_MIN)
        return NULL;
    pthread_mutex_lock(&region.lock);
    block = reuse(size);
    if (!block && size <= REGION_SIZE - region.used) {
        block = base + region.used;
        region.used += size;
    }
    pthread_mutex_unlock(&region.lock);
    return block;
}

/* If there is no memory for a list entry, the address range is lost, which is harmless. */
bool mf_shared_region_give(void *block, size_t bytes)
{
    const size_t size = pages_of(bytes);
    uint64_t offset;
    free_block *h;

    if (!mf_shared_region_find(block, &offset))
        return false;
    (void)fallocate(region.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                    (off_t)size);
    h = mf_calloc(1, sizeof *h);
    if (!h)
        return true;
    pthread_mutex_lock(&region.lock);
    *h = (free_block){ region.free_list, offset, size };
    region.free_list = h;
    pthread_mutex_unlock(&region.lock);
    return true;
}

/* ---- lending ---- */

struct mf_lender {
    mf_lender *next; /* of all lenders; guarded by their lock, as all fields below */
    mf_lend_words *words;
    int borrower; /* a pidfd; -1: the process cannot be watched */
    mf_iovec parts[MF_LEND_SLOTS]; /* release NULL: free slot */
    int out; /* number of lent parts */
    int hint; /* where to start the search for a free slot */
    bool is_closed;
};

static struct {
    pthread_mutex_t lock;
    mf_lender *all;
} lenders = { .lock = PTHREAD_MUTEX_INITIALIZER };

atomic_int mf_shared_region_lent;

static void free_lender(mf_lender *l)
{
    (void)munmap(l->words, sizeof *l->words);
    if (l->borrower >= 0)
        (void)close(l->borrower);
    mf_free(l);
}

mf_status mf_lender_new(mf_lend_words *words, pid_t pid, mf_lender **out)
{
    mf_lender *l = mf_calloc(1, sizeof *l);

    *out = l;
    if (!l) {
        (void)munmap(words, sizeof *words);
        return MF_NOMEM("a connection");
    }
    l->words = words;
    l->borrower = (int)syscall(SYS_pidfd_open, pid, 0);
    pthread_mutex_lock(&lenders.lock);
    l->next = lenders.all;
    lenders.all = l;
    pthread_mutex_unlock(&lenders.lock);
    return MF_OK;
}

static bool has_died(int process)
{
    struct pollfd p = { .fd = process, .events = POLLIN };

    return process >= 0 && poll(&p, 1, 0) > 0;
}

/* The caller holds the lock. Parts moved out of the slots must be released without it. */
static int shared_region_collect(mf_lender *l, mf_iovec *out, int room)
{
    const bool all = l->is_closed && l->out > 0 && has_died(l->borrower);
    int n = 0;

    for (int i = 0; i < MF_LEND_SLOTS && l->out > 0 && n < room; i++) {
        if (!l->parts[i].release)
            continue;
        if (!all && atomic_load_explicit(&l->words->lent[i], memory_order_acquire) != 0)
            continue;
        out[n++] = l->parts[i];
        l->parts[i] = (mf_iovec){ 0 };
        l->out--;
    }
    atomic_fetch_sub(&mf_shared_region_lent, n);
    return n;
}

/* The caller holds the lock. Removes a closed lender without lent parts; NULL: none. */
static mf_lender *remove_one(void)
{
    for (mf_lender **at = &lenders.all; *at; at = &(*at)->next) {
        mf_lender *l = *at;

        if (l->is_closed && l->out == 0) {
            *at = l->next;
            return l;
        }
    }
    return NULL;
}

void mf_shared_region_settle(void)
{
    mf_lender *ended;
    mf_iovec parts[64];
    int n;

    do {
        n = 0;
        pthread_mutex_lock(&lenders.lock);
        for (mf_lender *l = lenders.all; l && n == 0; l = l->next)
            n = shared_region_collect(l, parts, 64);
        ended = remove_one();
        pthread_mutex_unlock(&lenders.lock);
        mf_iovec_release(parts, n);
        if (ended)
            free_lender(ended);
    } while (n > 0 || ended);
}

void mf_lender_close(mf_lender *l)
{
    if (!l)
        return;
    pthread_mutex_lock(&lenders.lock);
    l->is_closed = true;
    pthread_mutex_unlock(&lenders.lock);
    mf_shared_region_settle();
}

int mf_lender_lend(mf_lender *l, const mf_iovec *part)
{
    int slot = -1;

    mf_shared_region_settle();
    pthread_mutex_lock(&lenders.lock);
    for (int i = 0; i < MF_LEND_SLOTS && slot < 0; i++) {
        const int at = (l->hint + i) % MF_LEND_SLOTS;

        if (!l->parts[at].release)
            slot = at;
    }
    if (slot >= 0) {
        atomic_store_explicit(&l->words->lent[slot], 1, memory_order_relaxed);
        l->parts[slot] = *part;
        l->out++;
        l->hint = slot + 1;
        atomic_fetch_add(&mf_shared_region_lent, 1);
    }
    pthread_mutex_unlock(&lenders.lock);
    return slot;
}
