/* SPDX-License-Identifier: Apache-2.0 */
/* numerics.h - the instruction set whose kernels compute.
 *
 * A process uses the best set that the library was built for and that the processor has: avx2,
 * avx512, avx512_bf16 or amx. A lower one can be chosen, for example to compare the speed or the
 * bits of two sets, here or by MESHFLOW_NUMERICS in the environment. */
#ifndef MESHFLOW_NUMERICS_H
#define MESHFLOW_NUMERICS_H

#include <meshflow/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Use this instruction set. It takes precedence over MESHFLOW_NUMERICS.
 * Fails: INVALID_ARGUMENT: unknown, or not available; the message names the available sets.
 * FAILED_PRECONDITION: a session of this process has already prepared kernels of another set.
 * Thread: any. */
MF_API mf_status mf_numerics_pin(const char *instruction_set);

#ifdef __cplusplus
}
#endif
#endif
