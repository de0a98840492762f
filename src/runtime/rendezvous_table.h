/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous_table.h - where values of a step wait for those who fetch them. Each task has a room
 * for each step it takes part in, or is asked about: either side may come first. */
#ifndef MF_RUNTIME_RENDEZVOUS_TABLE_H
#define MF_RUNTIME_RENDEZVOUS_TABLE_H

#include "base/cancel.h"
#include "tensor/tensor.h"

typedef struct mf_rendezvous_tables mf_rendezvous_tables;
typedef struct mf_rendezvous_table mf_rendezvous_table;

MF_MUST mf_status mf_rendezvous_tables_new(mf_rendezvous_tables **out);
/* Nobody is in a room any more. */
void mf_rendezvous_tables_free(mf_rendezvous_tables *rooms);

/* The step's room, made if there is none. Owns: mf_rendezvous_table_leave(). CANCELLED: the step is
 * over. */
MF_MUST mf_status mf_rendezvous_tables_enter(mf_rendezvous_tables *rooms, int64_t step,
                                             mf_rendezvous_table **out);
void mf_rendezvous_table_leave(mf_rendezvous_table *room);
/* The step is over: whoever waits gets CANCELLED, whoever comes later, too. */
void mf_rendezvous_tables_end(mf_rendezvous_tables *rooms, int64_t step);

/* Waits until all that was sent in the step's room is fetched, or the step is over. CANCELLED,
 * DEADLINE_EXCEEDED. */
MF_MUST mf_status mf_rendezvous_tables_await_fetched(mf_rendezvous_tables *rooms, int64_t step,
                                                     mf_cancel *cancel, int64_t deadline_ns);

/* value: NULL where it is dead; a reference is taken. Fails: INTERNAL (sent twice), as ended. */
MF_MUST mf_status mf_rendezvous_table_send(mf_rendezvous_table *room, const char *key,
                                           const mf_tensor *value);
/* The same with the handle of a variable, which is read when it is fetched: what is written before
 * the fetch is seen. */
MF_MUST mf_status mf_rendezvous_table_send_ref(mf_rendezvous_table *room, const char *key,
                                               const mf_tensor *handle);
/* value: NULL where it is dead. On failure the thread's error is set. No lock is held. */
typedef void mf_fetched_fn(void *ctx, mf_status status, const mf_tensor *value);
/* done() is called once, now or when it has come, by any thread; with CANCELLED when `cancel` is
 * raised, which must be there until then. */
void mf_rendezvous_table_fetch(mf_rendezvous_table *room, const char *key, mf_cancel *cancel,
                               mf_fetched_fn *done, void *ctx);
/* Waits for it. INVALID_ARGUMENT: it is dead; CANCELLED; as it failed. */
MF_MUST mf_status mf_rendezvous_table_await(mf_rendezvous_table *room, const char *key,
                                            mf_cancel *cancel, mf_tensor *out);
/* It failed here: whoever waits, or comes later, gets the thread's error. The first stays. */
void mf_rendezvous_table_fail(mf_rendezvous_table *room, mf_status status);

#endif
