/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - state of a task of a cluster of servers, of Meshflow or TensorFlow. */
#ifndef MF_CLI_PROBE_H
#define MF_CLI_PROBE_H

#include "base/status.h"
#include "net/transport.h"

/* What the probe has reached. */
typedef enum mf_probe_reached {
    MF_PROBE_NOTHING, /* nothing: the host name does not resolve */
    MF_PROBE_HOST, /* the host, but no server listens */
    MF_PROBE_PORT, /* the port, but not a server with TensorFlow's protocol */
    MF_PROBE_SERVER,
} mf_probe_reached;

typedef struct mf_probe {
    mf_probe_reached reached;
    mf_status status; /* why the probe ended there; MF_OK: it was successful */
    char why[400];
    char numbers[64]; /* the host's first address */
    bool loopback; /* is the address a loopback address? */
    double connect_ms, answer_ms;
    char task[160]; /* name that the server reports: "/job:worker/replica:0/task:0"; "" */
    char system[64]; /* "Meshflow 0.1.0", "TensorFlow" */
    int n_devices;
    bool has_clock;
    double ahead_s, ahead_error_s; /* relative to the local clock */
} mf_probe;

typedef struct mf_probe_options {
    mf_security security;
    const char *tls_dir; /* source of the security settings, or NULL */
    int64_t timeout_ms; /* for each request */
    bool clock; /* also read its clock */
} mf_probe_options;

/* address: "host:port". An unreachable task is not a failure. */
void mf_probe_task(const char *address, const mf_probe_options *o, mf_probe *out);

/* Tries to listen at the address: 0, or errno. */
int mf_probe_listen(const char *address);

#endif
