/* SPDX-License-Identifier: Apache-2.0 */
/* rewritten.h - the graph that passes leave, as one that can be run again. */
#ifndef MF_CLI_REWRITTEN_H
#define MF_CLI_REWRITTEN_H

#include "compile/compile.h"

/* A copy in which fed outputs are placeholders and fetched ones are identities, under their old
 * names wherever these are free; others are said in `notes`, a line each. Owns: the caller frees
 * *out. */
MF_MUST mf_status mf_rewritten_graph(const mf_compile *c, const mf_signature *sig, mf_graph **out,
                                     mf_buf *notes);

#endif
