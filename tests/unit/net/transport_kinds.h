/* SPDX-License-Identifier: Apache-2.0 */
/* transport_kinds.h - the tasks of a job as threads of a test, over any transport. */
#ifndef TESTS_UNIT_COMM_WAYS_H
#define TESTS_UNIT_COMM_WAYS_H

#include "net/net.h"

enum { MAX_TASKS = 8 };

/* How the tasks connect. */
typedef struct way {
    const mf_transport_kind *kind;
    mf_security security[MAX_TASKS];
    char addresses[MAX_TASKS][64];
} way;

typedef struct task {
    int self, n;
    const way *way;
    const char *identity;
    bool known; /* addresses are */
    int64_t timeout_ns; /* 0: 3 s */
    mf_net *net;
    mf_status st;
    char error[600];
} task;

/* A transport by name and n addresses for it that are free. Skips the test if it is not here. */
void way_init(way *w, const char *transport, int n);
/* The same for grpc with TLS: certificates for every task, in files that are removed when the test
 * ends. */
void way_init_tls(way *w, int n);
/* The key of the authority that way_init_tls() has made. */
const char *way_ca_key(void);
/* A certificate and its key, in files. */
typedef struct cert_files {
    char cert[96], key[96];
} cert_files;
struct mf_certificate_options;
void cert_make(const cert_files *ca, const struct mf_certificate_options *o, cert_files *out);
/* Both texts in one file. */
void cert_join(const char *a, const char *b, char out[96]);
/* An authority for a test; valid now. */
void cert_make_ca(cert_files *out);

/* The options of a task for mf_net_open(). */
mf_status open_task(task *t);
/* All at once; t[i].identity is kept. */
void open_all(task *t, int n, bool known, const way *w);
void close_all(task *t, int n);

#endif
