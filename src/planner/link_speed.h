/* SPDX-License-Identifier: Apache-2.0 */
/* link_speed.h - communication costs between devices, measured on an otherwise idle mesh with the
 * same ops as in a step. */
#ifndef MF_PLANNER_LINK_SPEED_H
#define MF_PLANNER_LINK_SPEED_H

#include "spmd/session/mesh_session.h"

typedef struct mf_links {
    double step_ns; /* to start and end a step */
    double round_ns; /* latency of a small all-reduce */
    double collective_ns; /* of each further all-reduce at the same time */
    double byte_ns; /* per received byte, over all devices */
} mf_links;

/* Devices are threads of this process; `threads` compute threads are shared by all of them. */
MF_MUST mf_status mf_links_measure(int devices, int threads, mf_links *out);

/* Devices are threads of several processes. */
typedef struct mf_link_peers {
    const mf_mesh_setup *setup; /* the devices of this process, and the wire to the others */
    mf_status (*barrier)(void *ctx); /* barrier of all processes */
    void *ctx;
} mf_link_peers;

/* Collective: all processes call it at the same time, with no other traffic. */
MF_MUST mf_status mf_links_measure_together(const mf_link_peers *team, mf_links *out);

#endif
