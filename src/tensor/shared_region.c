/* SPDX-License-Identifier: Apache-2.0 */
/* shared_region.c - the region of tensors that processes of one host share: an unnamed file
 * (memfd), far larger than memory, of which only the used pages exist. Blocks are allocated from
 * its end; freed blocks are reused for the same size. */
#include "tensor/shared_region.h"

#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
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
