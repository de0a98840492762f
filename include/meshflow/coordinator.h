/* SPDX-License-Identifier: Apache-2.0 */
/* coordinator.h - threads that stop together, and threads that keep queues filled. The C
 * counterpart of tf.train.Coordinator and tf.train.QueueRunner.
 *
 *     mf_coordinator_new(&c);
 *     mf_queue_runner_start(&runner, session, c);
 *     while (!mf_coordinator_should_stop(c) && mf_session_run(...) == MF_OK)
 *         ;
 *     mf_coordinator_request_stop(c, MF_OK);
 *     mf_coordinator_join(c, 0);
 *     mf_coordinator_free(c);
 *
 * Thread: any, for all functions except mf_coordinator_free(). */
#ifndef MESHFLOW_COORDINATOR_H
#define MESHFLOW_COORDINATOR_H

#include <meshflow/session.h>

#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mf_coordinator mf_coordinator;

MF_API MF_MUST mf_status mf_coordinator_new(mf_coordinator **out);
/* Asks threads that still run to stop. They keep alive the state they use. */
MF_API void mf_coordinator_free(mf_coordinator *coordinator);

/* Ask all threads to stop. Only the first call counts: if `why` is a failure, mf_coordinator_join()
 * returns it with the message of the thread that called. MF_OK and OUT_OF_RANGE (end of input) are
 * not failures. */
MF_API void mf_coordinator_request_stop(mf_coordinator *coordinator, mf_status why);
MF_API bool mf_coordinator_should_stop(const mf_coordinator *coordinator);
/* Wait until a stop is requested. Returns false after timeout_ms without a request. timeout_ms < 0:
 * no limit. */
MF_API bool mf_coordinator_wait_for_stop(mf_coordinator *coordinator, int64_t timeout_ms);
/* The first failure, or MF_OK if there was none. */
MF_API MF_MUST mf_status mf_coordinator_failure(mf_coordinator *coordinator);
/* After mf_coordinator_join(): makes the coordinator ready for another use. */
MF_API void mf_coordinator_clear_stop(mf_coordinator *coordinator);

/* Start a thread that mf_coordinator_join() waits for. If fn fails, the other threads are asked to
 * stop. Fails: RESOURCE_EXHAUSTED. */
MF_API MF_MUST mf_status mf_coordinator_start(mf_coordinator *coordinator, const char *name,
                                              mf_status (*fn)(void *ctx), void *ctx);
/* Hand over a thread that the caller started. The coordinator joins it; the caller must not. */
MF_API MF_MUST mf_status mf_coordinator_register_thread(mf_coordinator *coordinator,
                                                        const char *name, pthread_t thread);

/* Wait until all threads have ended. The wait has no limit until a stop is requested; from then on
 * it lasts at most grace_ms (0: two minutes), and threads that still run are abandoned. Returns the
 * first failure; without one, DEADLINE_EXCEEDED naming the threads that still run. */
MF_API MF_MUST mf_status mf_coordinator_join(mf_coordinator *coordinator, int64_t grace_ms);

/* ---- queues ---- */

/* The threads that fill a queue. All names are copied. */
typedef struct mf_queue_runner {
    const char *const *enqueue; /* targets; each is run in a loop by its own threads */
    int n_enqueue;
    int threads; /* per target; default: 1 */
    const char *close; /* target; run once all threads have reached the end of their input */
    const char *cancel; /* target that closes the queue and cancels pending enqueues; run on a
                           stop */
} mf_queue_runner;

/* Start the threads, and one more that runs `cancel` when the coordinator is asked to stop.
 * OUT_OF_RANGE ends a thread without a failure; any other failure stops all threads. The session
 * must stay valid until the threads are joined. Fails: INVALID_ARGUMENT (a target is missing),
 * RESOURCE_EXHAUSTED. */
MF_API MF_MUST mf_status mf_queue_runner_start(const mf_queue_runner *runner, mf_session *session,
                                               mf_coordinator *coordinator);

#ifdef __cplusplus
}
#endif
#endif
