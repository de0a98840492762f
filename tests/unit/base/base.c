/* SPDX-License-Identifier: Apache-2.0 */
/* base.c - memory, maps, buffers, errors, the pool, cancellation, Philox. */
#include "base/buf.h"
#include "base/cancel.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"
#include "mf_test.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static mf_status fails_deep(int depth)
{
    if (depth > 0) {
        MF_TRY(fails_deep(depth - 1));
        return MF_OK;
    }
    return MF_FAIL(MF_DATA_LOSS, "block %d is bad", 7);
}

MF_TEST(base_error_keeps_its_first_message_and_its_trace)
{
    T_FAILS(MF_DATA_LOSS, "block 7 is bad", fails_deep(2));
    T_TRUE(strstr(mf_error_trace(), "fails_deep") != NULL);
    (void)mf_error_wrap(MF_DATA_LOSS, "file 'x': ", "!");
    T_STREQ(mf_error_message(), "file 'x': block 7 is bad!");
}

MF_TEST(base_error_survives_messages_longer_than_its_record)
{
    char text[5000];

    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    (void)MF_FAIL(MF_UNKNOWN, "%s", text);
    for (int i = 0; i < 200; i++)
        (void)mf_error_at(MF_UNKNOWN, __FILE__, __LINE__, __func__);
    (void)mf_error_wrap(MF_UNKNOWN, "before ", " after");
    T_TRUE(strlen(mf_error_message()) < 2000);
    T_TRUE(strstr(mf_error_message(), " after") != NULL);
}

MF_TEST(base_map_finds_added_entries_and_not_removed_ones)
{
    static char keys[5000][16];
    mf_map map = { 0 };

    for (int i = 0; i < 5000; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "key%d", i);
        T_OK(mf_map_set(&map, keys[i], keys[i]));
    }
    for (int i = 0; i < 5000; i += 2)
        T_TRUE(mf_map_remove(&map, keys[i]) == keys[i]);
    T_EQ(map.count, 2500);
    for (int i = 0; i < 5000; i++)
        T_TRUE((mf_map_find(&map, keys[i]) != NULL) == (i % 2 == 1));
    for (int i = 0; i < 5000; i += 2)
        T_OK(mf_map_set(&map, keys[i], keys[i]));
    T_EQ(map.count, 5000);
    mf_map_deinit(&map);
}

MF_TEST(base_arena_allocates_zeroed_aligned_memory_up_to_its_limit)
{
    mf_arena *a = mf_arena_new();

    T_TRUE(a != NULL);
    for (int i = 1; i < 2000; i++) {
        const char *p = mf_arena_alloc(a, i, 7);

        T_TRUE(p != NULL && (uintptr_t)p % 16 == 0 && p[0] == 0 && p[7 * i - 1] == 0);
    }
    T_TRUE(mf_arena_alloc(a, INT64_MAX, 16) == NULL);
    mf_arena_limit(a, mf_arena_used(a) + 100);
    T_TRUE(mf_arena_alloc(a, 1, 200) == NULL);
    T_TRUE(mf_arena_alloc(a, 1, 32) != NULL);
    mf_arena_free(a);
}

MF_TEST(base_overflowing_sizes_are_refused)
{
    int64_t r = 5;

    T_TRUE(mf_mul_i64((int64_t)1 << 31, (int64_t)1 << 31, &r) && r == (int64_t)1 << 62);
    T_TRUE(!mf_mul_i64((int64_t)1 << 32, (int64_t)1 << 31, &r));
    T_TRUE(!mf_mul_i64(-1, 2, &r));
    T_TRUE(!mf_add_i64(INT64_MAX, 1, &r));
}

MF_TEST(base_json_text_is_valid_whatever_the_bytes)
{
    mf_buf b = { 0 };

    mf_buf_json(&b, "a\"\\\n\xff\xc3\xa4", 7);
    T_OK(mf_buf_finish(&b));
    T_STREQ(b.data, "\"a\\\"\\\\\\u000a\\u00ff\xc3\xa4\"");
    mf_buf_deinit(&b);
}

typedef struct counters {
    atomic_int seen[1000];
    mf_pool *pool;
} counters;

static void inner_piece(void *ctx, int64_t piece)
{
    counters *c = ctx;

    atomic_fetch_add(&c->seen[piece], 1);
}

static void outer_piece(void *ctx, int64_t piece)
{
    counters *c = ctx;

    (void)piece;
    mf_pool_complete(c->pool, 1000, inner_piece, c);
}

MF_TEST(pool_runs_every_piece_once_also_in_nested_loops)
{
    for (int threads = 1; threads <= 4; threads++) {
        static counters c;

        memset(&c, 0, sizeof c);
        T_OK(mf_pool_new(threads, &c.pool));
        mf_pool_complete(c.pool, 8, outer_piece, &c);
        for (int i = 0; i < 1000; i++)
            T_EQ(atomic_load(&c.seen[i]), 8);
        mf_pool_free(c.pool);
    }
}

typedef struct counted_task {
    mf_task task;
    atomic_int *count;
} counted_task;

static void count_task(mf_task *task)
{
    atomic_fetch_add(((counted_task *)task)->count, 1);
}

MF_TEST(pool_finishes_submitted_tasks_before_it_ends)
{
    static counted_task tasks[500];
    atomic_int count = 0;
    mf_pool *pool;

    T_OK(mf_pool_new(3, &pool));
    for (int i = 0; i < 500; i++) {
        tasks[i] = (counted_task){ .task = { .fn = count_task }, .count = &count };
        mf_pool_submit(pool, &tasks[i].task);
    }
    mf_pool_free(pool);
    T_EQ(atomic_load(&count), 500);
}

static int called;

static void on_cancel(mf_cancel_hook *hook)
{
    (void)hook;
    called++;
}

MF_TEST(base_cancel_calls_each_hook_once_and_refuses_later_ones)
{
    mf_cancel_hook a = { .fn = on_cancel }, b = { .fn = on_cancel }, c = { .fn = on_cancel };
    mf_cancel cancel;

    mf_cancel_init(&cancel);
    T_TRUE(mf_cancel_add(&cancel, &a));
    T_TRUE(mf_cancel_add(&cancel, &b));
    T_TRUE(mf_cancel_remove(&cancel, &b));
    mf_cancel_raise(&cancel);
    mf_cancel_raise(&cancel);
    T_EQ(called, 1);
    T_TRUE(!mf_cancel_remove(&cancel, &a));
    T_TRUE(!mf_cancel_add(&cancel, &c));
    mf_cancel_deinit(&cancel);
}

typedef struct slow_hook {
    mf_cancel_hook hook;
    mf_cancel *cancel;
    sem_t called;
    atomic_bool ended;
} slow_hook;

static slow_hook slow;

static void on_cancel_slowly(mf_cancel_hook *hook)
{
    (void)hook;
    sem_post(&slow.called);
    usleep(20000);
    atomic_store(&slow.ended, true);
}

static void on_cancel_remove_slow(mf_cancel_hook *hook)
{
    (void)hook;
    sem_wait(&slow.called); /* another thread is calling the hook */
    T_TRUE(!mf_cancel_remove(slow.cancel, &slow.hook));
    T_TRUE(atomic_load(&slow.ended));
}

static void *raise_again(void *cancel)
{
    mf_cancel_raise(cancel);
    return NULL;
}

/* A queue does this: the hook of one waiter releases another waiter. */
MF_TEST(base_cancel_hook_may_remove_a_hook_that_another_thread_is_calling)
{
    mf_cancel_hook remover = { .fn = on_cancel_remove_slow };
    mf_cancel cancel;
    pthread_t id;

    mf_cancel_init(&cancel);
    slow.cancel = &cancel;
    slow.hook.fn = on_cancel_slowly;
    T_EQ(sem_init(&slow.called, 0, 0), 0);
    T_TRUE(mf_cancel_add(&cancel, &slow.hook));
    T_TRUE(mf_cancel_add(&cancel, &remover)); /* hooks are called in reverse order */
    T_EQ(pthread_create(&id, NULL, raise_again, &cancel), 0);
    mf_cancel_raise(&cancel);
    pthread_join(id, NULL);
    T_TRUE(atomic_load(&slow.ended));
    sem_destroy(&slow.called);
    mf_cancel_deinit(&cancel);
}

/* Known answers of Philox4x32-10 from the authors' test vectors. */
MF_TEST(base_philox_gives_the_published_numbers)
{
    mf_philox zero = { .counter = { 0 } };
    mf_philox ones = { .counter = { ~0u, ~0u, ~0u, ~0u }, .key = { ~0u, ~0u } };
    uint32_t r[4];

    mf_philox_next(&zero, r);
    T_EQ(r[0], 0x6627e8d5);
    T_EQ(r[1], 0xe169c58d);
    T_EQ(r[2], 0xbc57ac4c);
    T_EQ(r[3], 0x9b00dbd8);
    mf_philox_next(&ones, r);
    T_EQ(r[0], 0x408f276d);
    T_EQ(r[1], 0x41c83b0e);
    T_EQ(r[2], 0xa20bc7c6);
    T_EQ(r[3], 0x6d5451fd);
}
