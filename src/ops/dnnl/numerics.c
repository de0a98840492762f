/* SPDX-License-Identifier: Apache-2.0 */
/* numerics.c - the numerics class: what determines bits. Meshflow's kernels are compiled for one
 * instruction set; oneDNN's depend on the machine and on its version. */
#include "graph/op.h"
#include "ops/dnnl/dnnl_util.h"

#include <pthread.h>
#include <stdio.h>

static char text[96];

static void numerics_make_text(void)
{
    const dnnl_version_t *v = dnnl_version();

    (void)snprintf(text, sizeof text, "cpu x86-64-v3 onednn-%d.%d.%d isa-0x%x", v->major, v->minor,
                   v->patch, (unsigned)dnnl_get_effective_cpu_isa());
}

const char *mf_numerics_class(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, numerics_make_text);
    return text;
}
