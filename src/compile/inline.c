/* SPDX-License-Identifier: Apache-2.0 */
/* inline.c - pass: calls of functions and functional control flow become nodes of the graph. */
#include "compile/compile.h"

mf_status mf_pass_inline(mf_compile *c)
{
    (void)c;
    return MF_OK;
}
