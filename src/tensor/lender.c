/* SPDX-License-Identifier: Apache-2.0 */
/* lender.c - tensors of the shared region that are lent to another process of the host: a slot and
 * a word in shared memory for each, references that are released when the word is cleared or the
 * borrower has died. */
#include "tensor/lender.h"

#include "base/mem.h"

#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

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

atomic_int mf_lender_lent;

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
static int lender_collect(mf_lender *l, mf_iovec *out, int room)
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
    atomic_fetch_sub(&mf_lender_lent, n);
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

void mf_lender_settle(void)
{
    mf_lender *ended;
    mf_iovec parts[64];
    int n;

    do {
        n = 0;
        pthread_mutex_lock(&lenders.lock);
        for (mf_lender *l = lenders.all; l && n == 0; l = l->next)
            n = lender_collect(l, parts, 64);
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
    mf_lender_settle();
}

int mf_lender_lend(mf_lender *l, const mf_iovec *part)
{
    int slot = -1;

    mf_lender_settle();
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
        atomic_fetch_add(&mf_lender_lent, 1);
    }
    pthread_mutex_unlock(&lenders.lock);
    return slot;
}
