/* SPDX-License-Identifier: Apache-2.0 */
/* store_conform.h - what every kind of store must do, whichever it is. Each wants an empty one. */
#ifndef MF_TEST_STORE_CONFORM_H
#define MF_TEST_STORE_CONFORM_H

#include "cluster/store/store.h"

void store_values_have_versions(mf_store *s);
void store_lists_by_prefix(mf_store *s);
void store_takes_any_bytes(mf_store *s);
void store_refuses_what_is_wrong(mf_store *s);
void store_lease_ends_when_told(mf_store *s);
/* ttl_ns: the shortest lease of this kind of store. */
void store_lease_ends_unless_kept(mf_store *s, int64_t ttl_ns);
void store_wait_sees_changes(mf_store *s);
/* Threads that each add one to a number, many times; `url` of the same store. */
void store_threads_count(const char *url, int threads, int times);

/* A number under `key`, one more; true: this call did it, false: another process was first. */
bool store_count_once(mf_store *s, const char *key, int64_t lease);
/* The time in `ms` milliseconds. */
int64_t store_in_ms(int64_t ms);

#endif
