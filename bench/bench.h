/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h - shared by the benchmarks. */
#ifndef MF_BENCH_H
#define MF_BENCH_H

#include "base/status.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static inline void must(mf_status st)
{
    if (st != MF_OK) {
        fprintf(stderr, "bench %s: %s\n", program_invocation_short_name, mf_error_message());
        exit(1);
    }
}

static inline int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static inline void sort(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
}

#endif
