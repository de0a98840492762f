/* SPDX-License-Identifier: Apache-2.0 */
/* replica.h - the process that holds the model and answers the requests that the front sends. */
#ifndef MF_SERVING_REPLICA_H
#define MF_SERVING_REPLICA_H

#include "serving/served_model.h"

/* Serves frames from `fd` until the other end is closed. Returns the exit status of the process. */
int mf_replica_main(const mf_serve_model *what, int fd);
/* The HTTP status of a failure. */
int mf_serve_http_status(mf_status st);

#endif
