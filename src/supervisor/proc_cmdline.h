/* SPDX-License-Identifier: Apache-2.0 */
/* proc_cmdline.h - the command line or environment of a process, as the kernel reports it:
 * NUL-terminated words. */
#ifndef MF_SUPERVISOR_PROC_CMDLINE_H
#define MF_SUPERVISOR_PROC_CMDLINE_H

#include "base/status.h"

typedef struct mf_proc_cmdline {
    char *text;
    char **list; /* ends with NULL, with space for MF_PROC_CMDLINE_ROOM more words */
} mf_proc_cmdline;

enum { MF_PROC_CMDLINE_ROOM = 8 };

/* what: "cmdline" or "environ" of a process of this user. Owns: mf_proc_cmdline_deinit(), also
 * after a failure. */
MF_MUST mf_status mf_proc_cmdline_read(int64_t pid, const char *what, mf_proc_cmdline *out);
void mf_proc_cmdline_deinit(mf_proc_cmdline *w);

#endif
