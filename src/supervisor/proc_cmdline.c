/* SPDX-License-Identifier: Apache-2.0 */
/* proc_cmdline.c - reads the command line and environment of a process from /proc. */
#include "supervisor/proc_cmdline.h"

#include "base/file.h"
#include "base/mem.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 16 << 20 }; /* bytes */

mf_status mf_proc_cmdline_read(int64_t pid, const char *what, mf_proc_cmdline *out)
{
    char path[64];
    int64_t n = 0;
    size_t size;

    *out = (mf_proc_cmdline){ 0 };
    (void)snprintf(path, sizeof path, "/proc/%lld/%s", (long long)pid, what);
    MF_TRY(mf_file_read(path, MOST, &out->text, &size));
    out->list = mf_calloc((int64_t)size + MF_PROC_CMDLINE_ROOM + 1, sizeof *out->list);
    if (!out->list)
        return MF_NOMEM("a command");
    for (char *p = out->text; p < out->text + size; p += strlen(p) + 1)
        out->list[n++] = p;
    return MF_OK;
}

void mf_proc_cmdline_deinit(mf_proc_cmdline *w)
{
    mf_free(w->text);
    mf_free(w->list);
    *w = (mf_proc_cmdline){ 0 };
}
