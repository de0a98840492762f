/* SPDX-License-Identifier: Apache-2.0 */
/* room.h - where values of a step wait for those who fetch them. Each task has a room for each step
 * it takes part in, or is asked about: either side may come first. */
#ifndef MF_RUNTIME_ROOM_H
#define MF_RUNTIME_ROOM_H

#include "base/cancel.h"
#include "tensor/tensor.h"

typedef struct mf_rooms mf_rooms;
typedef struct mf_room mf_room;

MF_MUST mf_status mf_rooms_new(mf_rooms **out);
/* Nobody is in a room any more. */
void mf_rooms_free(mf_rooms *rooms);

/* The step's room, made if there is none. Owns: mf_room_leave(). CANCELLED: the step is over. */
MF_MUST mf_status mf_rooms_enter(mf_rooms *rooms, int64_t step, mf_room **out);
void mf_room_leave(mf_room *room);
/* The step is over: whoever waits gets CANCELLED, whoever comes later, too. */
void mf_rooms_end(mf_rooms *rooms, int64_t step);

/* Waits until all that was sent in the step's room is fetched, or the step is over. CANCELLED,
 * DEADLINE_EXCEEDED. */
MF_MUST mf_status mf_rooms_await_fetched(mf_rooms *rooms, int64_t step, mf_cancel *cancel,
                                         int64_t deadline_ns);

/* value: NULL where it is dead; a reference is taken. Fails: INTERNAL (sent twice), as ended. */
MF_MUST mf_status mf_room_send(mf_room *room, const char *key, const mf_tensor *value);
/* The same with the handle of a variable, which is read when it is fetched: what is written before
 * the fetch is seen. */
MF_MUST mf_status mf_room_send_ref(mf_room *room, const char *key, const mf_tensor *handle);
/* value: NULL where it is dead. On failure the thread's error is set. No lock is held. */
typedef void mf_fetched_fn(void *ctx, mf_status status, const mf_tensor *value);
/* done() is called once, now or when it has come, by any thread; with CANCELLED when `cancel` is
 * raised, which must be there until then. */
void mf_room_fetch(mf_room *room, const char *key, mf_cancel *cancel, mf_fetched_fn *done,
                   void *ctx);
/* Waits for it. INVALID_ARGUMENT: it is dead; CANCELLED; as it failed. */
MF_MUST mf_status mf_room_await(mf_room *room, const char *key, mf_cancel *cancel, mf_tensor *out);
/* It failed here: whoever waits, or comes later, gets the thread's error. The first stays. */
void mf_room_fail(mf_room *room, mf_status status);

#endif
