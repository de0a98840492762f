/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - is a task of a cluster of servers there, and what does it say of itself? Asks servers
 * of ours and TensorFlow's alike. */
#ifndef MF_CLI_PROBE_H
#define MF_CLI_PROBE_H

#include "base/status.h"
#include "net/transport.h"

/* How far it came. */
typedef enum mf_probe_reached {
    MF_PROBE_NOTHING, /* the host's name is not known */
    MF_PROBE_HOST, /* it is, but nobody listens */
    MF_PROBE_PORT, /* somebody does, but is no server of TensorFlow's protocol */
    MF_PROBE_SERVER,
} mf_probe_reached;

typedef struct mf_probe {
    mf_probe_reached reached;
    mf_status status; /* why it came no further; MF_OK: it did */
    char why[400];
    char numbers[64]; /* the host's first address */
    bool loopback; /* which is of this host alone */
    double connect_ms, answer_ms;
    char task[160]; /* who it says it is: "/job:worker/replica:0/task:0"; "" */
    char system[64]; /* "Meshflow 0.1.0", "TensorFlow" */
    int n_devices;
    bool has_clock;
    double ahead_s, ahead_error_s; /* of our clock */
} mf_probe;

typedef struct mf_probe_options {
    mf_security security;
    const char *tls_dir; /* where that is from; or NULL */
    int64_t timeout_ms; /* of each question */
    bool clock; /* look at it, too */
} mf_probe_options;

/* address: "host:port". What is not reached is no failure. */
void mf_probe_task(const char *address, const mf_probe_options *o, mf_probe *out);

/* Could somebody listen there? 0, or errno. */
int mf_probe_listen(const char *address);

#endif
