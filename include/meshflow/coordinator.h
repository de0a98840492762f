/* SPDX-License-Identifier: Apache-2.0 */
/* coordinator.h - threads that end together, and threads that keep queues filled.
 *
 *     mf_coordinator_new(&c);
 *     mf_queue_runner_start(&runner, session, c);
 *     while (!mf_coordinator_should_stop(c) && mf_session_run(...) == MF_OK)
 *         ;
 *     mf_coordinator_request_stop(c, MF_OK);
 *     mf_coordinator_join(c, 0);
 *     mf_coordinator_free(c);
 *
 * What tf.train.Coordinator and tf.train.QueueRunner do. Thread: any, for all functions but
 * mf_coordinator_free(). */
#ifndef MESHFLOW_COORDINATOR_H
#define MESHFLOW_COORDINATOR_H

#include <meshflow/session.h>

#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mf_coordinator mf_coordinator;

MF_API MF_MUST mf_status mf_coordinator_new(mf_coordinator **out);
/* Threads that still run keep what they need of it; they are asked to stop. */
MF_API void mf_coordinator_free(mf_coordinator *coordinator);

/* Ask all threads to stop. The first call counts: where `why` is a failure, with the calling
 * thread's message, mf_coordinator_join() returns it. MF_OK and OUT_OF_RANGE (the input has ended)
 * are no failures. */
MF_API void mf_coordinator_request_stop(mf_coordinator *coordinator, mf_status why);
MF_API bool mf_coordinator_should_stop(const mf_coordinator *coordinator);
/* False: nobody has asked within that time. timeout_ms < 0: for ever. */
MF_API bool mf_coordinator_wait_for_stop(mf_coordinator *coordinator, int64_t timeout_ms);
/* What was the first failure; MF_OK: there was none. */
MF_API MF_MUST mf_status mf_coordinator_failure(mf_coordinator *coordinator);
/* After a join: ready to be used again. */
MF_API void mf_coordinator_clear_stop(mf_coordinator *coordinator);

/* Start a thread that is waited for by mf_coordinator_join(). It stops the others when fn fails.
 * Fails: RESOURCE_EXHAUSTED. */
MF_API MF_MUST mf_status mf_coordinator_start(mf_coordinator *coordinator, const char *name,
                                              mf_status (*fn)(void *ctx), void *ctx);
/* A thread that the caller has started, and that nobody else joins. */
MF_API MF_MUST mf_status mf_coordinator_register_thread(mf_coordinator *coordinator,
                                                        const char *name, pthread_t thread);

/* Wait until all threads have ended, however long that takes; but once a stop was asked for, at
 * most grace_ms (0: two minutes). Threads that still run then are let go. Returns the first
 * failure; without one, DEADLINE_EXCEEDED naming the threads that still run. */
MF_API MF_MUST mf_status mf_coordinator_join(mf_coordinator *coordinator, int64_t grace_ms);

/* ---- queues ---- */

/* Who fills a queue. All names are copied. */
typedef struct mf_queue_runner {
    const char *const *enqueue; /* targets, each run over and over by threads of its own */
    int n_enqueue;
    int threads; /* for each; 0: 1 */
    const char *close; /* target, run when the last of them has met the end of its input */
    const char *cancel; /* target that closes the queue and ends waiting enqueues, for stopping */
} mf_queue_runner;

/* Start the threads, and one that runs `cancel` when the coordinator is asked to stop. OUT_OF_RANGE
 * ends a thread quietly; other failures stop all. The session must live until the threads are
 * joined. Fails: INVALID_ARGUMENT (a target is missing), RESOURCE_EXHAUSTED. */
MF_API MF_MUST mf_status mf_queue_runner_start(const mf_queue_runner *runner, mf_session *session,
                                               mf_coordinator *coordinator);

#ifdef __cplusplus
}
#endif
#endif
