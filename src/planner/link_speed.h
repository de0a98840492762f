/* SPDX-License-Identifier: Apache-2.0 */
/* link_speed.h - what it takes processors of this machine to do something together: measured on a
 * mesh whose processors do nothing else, with the very ops that a step has. */
#ifndef MF_PLANNER_LINK_SPEED_H
#define MF_PLANNER_LINK_SPEED_H

#include "spmd/session/mesh_session.h"

typedef struct mf_links {
    double step_ns; /* to begin and end a step */
    double round_ns; /* until a small sum is everywhere, */
    double collective_ns; /* and for each further one at the same time */
    double byte_ns; /* for each byte that somebody receives: all bytes of all processors */
} mf_links;

/* Processors are threads of this process; `threads` compute for all of them together. */
MF_MUST mf_status mf_links_measure(int processors, int threads, mf_links *out);

/* Processors that are threads of several processes. */
typedef struct mf_links_team {
    const mf_mesh_setup *setup; /* which are here, and the wire to the others */
    mf_status (*meet)(void *ctx); /* waits until all processes are there */
    void *ctx;
} mf_links_team;

/* Collective: all processes do it at the same time, while nothing else is on the wire. */
MF_MUST mf_status mf_links_measure_together(const mf_links_team *team, mf_links *out);

#endif
