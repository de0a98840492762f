/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous_table.h - values of a step that wait for their consumers. Each task has a table for
 * each step that it runs, or for which it received a request: either side may be first. */
#ifndef MF_RUNTIME_RENDEZVOUS_TABLE_H
#define MF_RUNTIME_RENDEZVOUS_TABLE_H

#include "base/cancel.h"
#include "tensor/tensor.h"

typedef struct mf_rendezvous_tables mf_rendezvous_tables;
typedef struct mf_rendezvous_table mf_rendezvous_table;

MF_MUST mf_status mf_rendezvous_tables_new(mf_rendezvous_tables **out);
/* Call it when no table is in use. */
void mf_rendezvous_tables_free(mf_rendezvous_tables *tables);

/* The step's table, created if necessary. Owns: the caller calls mf_rendezvous_table_leave().
 * Fails: CANCELLED (the step has ended). */
MF_MUST mf_status mf_rendezvous_tables_enter(mf_rendezvous_tables *tables, int64_t step,
                                             mf_rendezvous_table **out);
void mf_rendezvous_table_leave(mf_rendezvous_table *table);
/* The step has ended: current and later fetches fail with CANCELLED. */
void mf_rendezvous_tables_end(mf_rendezvous_tables *tables, int64_t step);

/* Waits until everything sent in the step was fetched, or the step has ended. Fails: CANCELLED,
 * DEADLINE_EXCEEDED. */
MF_MUST mf_status mf_rendezvous_tables_await_fetched(mf_rendezvous_tables *tables, int64_t step,
                                                     mf_cancel *cancel, int64_t deadline_ns);

/* value: NULL if it is dead; a reference is taken. Fails: INTERNAL (sent twice), or as the step has
 * ended. */
MF_MUST mf_status mf_rendezvous_table_send(mf_rendezvous_table *table, const char *key,
                                           const mf_tensor *value);
/* The same with the handle of a variable, which is read when it is fetched: writes before the fetch
 * are visible. */
MF_MUST mf_status mf_rendezvous_table_send_ref(mf_rendezvous_table *table, const char *key,
                                               const mf_tensor *handle);
/* value: NULL if it is dead. On failure the thread's error is set. No lock is held. */
typedef void mf_fetched_fn(void *ctx, mf_status status, const mf_tensor *value);
/* done() is called once, immediately or when the value arrives, by any thread; with CANCELLED when
 * `cancel` is raised, which must be valid until then. */
void mf_rendezvous_table_fetch(mf_rendezvous_table *table, const char *key, mf_cancel *cancel,
                               mf_fetched_fn *done, void *ctx);
/* Blocks until the value arrives. Fails: INVALID_ARGUMENT (it is dead), CANCELLED, or with the
 * failure of the step. */
MF_MUST mf_status mf_rendezvous_table_await(mf_rendezvous_table *table, const char *key,
                                            mf_cancel *cancel, mf_tensor *out);
/* The step failed on this task: current and later fetches fail with the thread's error. The first
 * failure is kept. */
void mf_rendezvous_table_fail(mf_rendezvous_table *table, mf_status status);

#endif
