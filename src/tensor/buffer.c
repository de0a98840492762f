/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.c - the block pool. Sizes are rounded to four classes per power of two, and sixteen from a
 * megabyte on, so at most a quarter is wasted, of large blocks a sixteenth. A freed block is kept
 * in the list of its class, up to buffer_cache_mib in total, or as long as the total held does not
 * exceed the peak in use: the block of a plan is freed after every run, and a step of many
 * gigabytes must not allocate them from the system each time. */
#include "tensor/buffer.h"

#include "base/host_state.h"
#include "base/mem.h"
#include "base/param.h"
#include "base/poison.h"
#include "base/quota.h"
#include "tensor/dtype.h"
#include "tensor/shared_region.h"
#include "tensor/tensor.h"

#include <pthread.h>
#include <stdlib.h>

enum {
    MIN_SHIFT = 6,
    FINE_SHIFT = 20, /* from this size on, classes are finer */
    MAX_SHIFT = 48,
    COARSE_CLASSES = (FINE_SHIFT - MIN_SHIFT) * 4,
    CLASSES = COARSE_CLASSES + (MAX_SHIFT - FINE_SHIFT) * 16,
    HEADER = 128
};

MF_PARAM_INT(buffer_cache_mib, 512, "MiB of freed tensor memory kept for reuse");
_Static_assert(sizeof(mf_buffer) <= HEADER, "the header is in front of the data");

static struct {
    pthread_mutex_t lock;
    mf_buffer *free_list[CLASSES]; /* guarded by lock */
    int64_t cached; /* bytes in the lists; guarded by lock */
    atomic_llong live, most, heap_calls; /* most: the peak of live */
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int64_t mib_to_bytes(int64_t mib)
{
    return mib > INT64_MAX >> 20 ? INT64_MAX : mib << 20;
}

static size_t class_bytes(int size_class)
{
    const unsigned coarse = (unsigned)size_class, fine = coarse - COARSE_CLASSES;

    if (coarse < COARSE_CLASSES)
        return ((size_t)(4 + coarse % 4) << (MIN_SHIFT + coarse / 4)) / 4;
    return ((size_t)(16 + fine % 16) << (FINE_SHIFT + fine / 16)) / 16;
}

static int buffer_class_of(size_t bytes)
{
    int shift = MIN_SHIFT, c;

    if (bytes <= (size_t)1 << MIN_SHIFT)
        return 0;
    shift = 63 - __builtin_clzll((unsigned long long)(bytes - 1));
    c = shift < FINE_SHIFT ? (shift - MIN_SHIFT) * 4 : COARSE_CLASSES + (shift - FINE_SHIFT) * 16;
    while (class_bytes(c) < bytes)
        c++;
    return c;
}

int64_t mf_buffer_room(int64_t bytes)
{
    return (int64_t)class_bytes(buffer_class_of((size_t)bytes));
}

static mf_buffer *take_cached(int size_class)
{
    mf_buffer *b;

    pthread_mutex_lock(&pool.lock);
    b = pool.free_list[size_class];
    if (b) {
        pool.free_list[size_class] = b->next_free;
        pool.cached -= (int64_t)b->bytes;
    }
    pthread_mutex_unlock(&pool.lock);
    return b;
}

static void buffer_give_back(mf_buffer *b)
{
    MF_UNPOISON(b->data, b->bytes);
    if (!mf_shared_region_give(b, HEADER + b->bytes))
        free(b);
}

/* Keeps the sum of blocks in use and cached blocks below the limit. */
static void buffer_make_room(void)
{
    int64_t cached;

    pthread_mutex_lock(&pool.lock);
    cached = pool.cached;
    pthread_mutex_unlock(&pool.lock);
    if (cached > 0 && cached > mf_quota_room()) /* the new block is already counted */
        mf_buffer_trim();
}

static mf_buffer *take_fresh(int size_class)
{
    const size_t bytes = class_bytes(size_class);
    void *block;
    mf_buffer *b;

    atomic_fetch_add_explicit(&pool.heap_calls, 1, memory_order_relaxed);
    buffer_make_room();
    block = mf_shared_region_take(HEADER + bytes);
    if (!block && posix_memalign(&block, MF_BUFFER_ALIGN, HEADER + bytes) != 0)
        return NULL;
    b = block;
    *b = (mf_buffer){ .size_class = size_class, .bytes = bytes, .data = (char *)block + HEADER };
    return b;
}

/* Bytes that a block counts for the limit, with its header and the allocator's padding: graphs can
 * hold millions of scalars. */
static int64_t taken_by(size_t bytes)
{
    return (int64_t)(HEADER + bytes + MF_BUFFER_ALIGN);
}

static void count_live(int64_t bytes)
{
    const long long now =
        atomic_fetch_add_explicit(&pool.live, bytes, memory_order_relaxed) + bytes;
    long long most = atomic_load_explicit(&pool.most, memory_order_relaxed);

    while (now > most && !atomic_compare_exchange_weak(&pool.most, &most, now))
        continue;
}

mf_status mf_buffer_new(mf_dtype dtype, int64_t count, mf_buffer **out)
{
    int64_t bytes;
    mf_buffer *b;
    int size_class;

    *out = NULL;
    if (!mf_mul_i64(count, (int64_t)mf_dtype_cell(dtype), &bytes) || bytes > mf_quota_limit() ||
        bytes > MF_BUFFER_MOST)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED,
                       "OOM when allocating tensor with %lld elements of type %s", (long long)count,
                       mf_dtype_name(dtype));
    size_class = buffer_class_of((size_t)bytes);
    if (mf_quota_take(taken_by(class_bytes(size_class))) != MF_OK)
        return MF_FAIL(MF_RESOURCE_EXHAUSTED,
                       "OOM when allocating tensor of %lld bytes: %lld bytes are in use",
                       (long long)bytes, (long long)mf_quota_used());
    b = take_cached(size_class);
    if (!b)
        b = take_fresh(size_class);
    if (!b) {
        mf_quota_give_back(taken_by(class_bytes(size_class)));
        return MF_FAIL(MF_RESOURCE_EXHAUSTED, "OOM when allocating tensor of %lld bytes",
                       (long long)bytes);
    }
    atomic_store_explicit(&b->refs, 1, memory_order_relaxed);
    b->dtype = dtype;
    MF_UNPOISON(b->data, b->bytes);
    if (!mf_dtype_is_plain(dtype))
        memset(b->data, 0, b->bytes);
    else
        MF_POISON((char *)b->data + bytes, b->bytes - (size_t)bytes);
    count_live((int64_t)b->bytes);
    b->account = mf_mem_account_take((int64_t)b->bytes);
    *out = b;
    return MF_OK;
}

mf_status mf_buffer_wrap(void *data, size_t bytes, void (*release)(void *, void *), void *ctx,
                         mf_buffer **out)
{
    mf_buffer *b = mf_calloc(1, sizeof *b);

    *out = b;
    if (!b)
        return MF_NOMEM("a buffer");
    *b = (mf_buffer){ .size_class = -1,
                      .dtype = MF_DTYPE_U8,
                      .bytes = bytes,
                      .data = data,
                      .release = release,
                      .ctx = ctx };
    atomic_store(&b->refs, 1);
    return MF_OK;
}

static void buffer_release_part(void *data, void *ctx)
{
    const mf_iovec *part = ctx;

    (void)data;
    part->release(part->ctx);
    mf_quota_give_back((int64_t)part->size);
    mf_free(ctx);
}

mf_status mf_buffer_borrow(const mf_iovec *part, mf_buffer **out)
{
    mf_iovec *kept;
    mf_status st;

    *out = NULL;
    MF_TRY(mf_quota_take((int64_t)part->size));
    kept = mf_calloc(1, sizeof *kept);
    if (kept)
        *kept = *part;
    st = kept ? mf_buffer_wrap((void *)(uintptr_t)part->data, part->size, buffer_release_part, kept,
                               out)
              : MF_NOMEM("a buffer");
    if (st != MF_OK) {
        mf_quota_give_back((int64_t)part->size);
        mf_free(kept);
        return st;
    }
    (*out)->read_only = true;
    return MF_OK;
}

static void release_elements(mf_buffer *b)
{
    const int64_t n = (int64_t)(b->bytes / mf_dtype_cell(b->dtype));

    if (b->dtype == MF_DTYPE_STRING) {
        mf_string *s = b->data;

        for (int64_t i = 0; i < n; i++)
            mf_free(s[i].data);
    } else {
        mf_object **o = b->data;

        for (int64_t i = 0; i < n; i++)
            mf_object_unref(o[i]);
    }
}

static bool put_cached(mf_buffer *b)
{
    const int64_t unused = atomic_load(&pool.most) - atomic_load(&pool.live);
    const int64_t allowed = mib_to_bytes(MF_PARAM(buffer_cache_mib));
    bool kept;

    pthread_mutex_lock(&pool.lock);
    kept = pool.cached + (int64_t)b->bytes <= (unused > allowed ? unused : allowed);
    if (kept) {
        MF_POISON(b->data, b->bytes);
        b->next_free = pool.free_list[b->size_class];
        pool.free_list[b->size_class] = b;
        pool.cached += (int64_t)b->bytes;
    }
    pthread_mutex_unlock(&pool.lock);
    return kept;
}

void mf_buffer_unref(mf_buffer *b)
{
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) > 1)
        return;
    if (b->size_class < 0) {
        if (b->release) {
            MF_CALLBACK;
            b->release(b->data, b->ctx);
        }
        mf_free(b);
        return;
    }
    if (!mf_dtype_is_plain(b->dtype))
        release_elements(b);
    mf_mem_account_give(b->account, (int64_t)b->bytes);
    atomic_fetch_sub_explicit(&pool.live, (int64_t)b->bytes, memory_order_relaxed);
    mf_quota_give_back(taken_by(b->bytes));
    if (!put_cached(b))
        buffer_give_back(b);
}

static void release_reference(void *buffer)
{
    mf_buffer_unref(buffer);
}

mf_iovec mf_buffer_part(mf_buffer *b, const void *data, size_t size)
{
    return (mf_iovec){ .data = data, .size = size, .release = release_reference, .ctx = b };
}

int64_t mf_buffer_live_bytes(void)
{
    return atomic_load(&pool.live);
}

int64_t mf_buffer_heap_calls(void)
{
    return atomic_load(&pool.heap_calls);
}

void mf_buffer_trim(void)
{
    mf_buffer *all = NULL;

    pthread_mutex_lock(&pool.lock);
    for (int c = 0; c < CLASSES; c++) {
        while (pool.free_list[c]) {
            mf_buffer *b = pool.free_list[c];

            pool.free_list[c] = b->next_free;
            b->next_free = all;
            all = b;
        }
    }
    pool.cached = 0;
    pthread_mutex_unlock(&pool.lock);
    while (all) {
        mf_buffer *next = all->next_free;

        buffer_give_back(all);
        all = next;
    }
}

void mf_buffer_settle(void)
{
    bool many;

    atomic_store(&pool.most, atomic_load(&pool.live));
    pthread_mutex_lock(&pool.lock);
    many = pool.cached > mib_to_bytes(MF_PARAM(buffer_cache_mib));
    pthread_mutex_unlock(&pool.lock);
    if (many)
        mf_buffer_trim();
}
