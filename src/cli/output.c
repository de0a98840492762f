/* SPDX-License-Identifier: Apache-2.0 */
/* output.c - prints a buffer on standard output and reports write errors. */
#include "cli/command.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

mf_status mf_cli_print(mf_buf *text)
{
    mf_status st = mf_buf_finish(text);

    if (st == MF_OK && text->len > 0) {
        const bool written = fwrite(text->data, 1, text->len, stdout) == text->len;

        /* A reader that closes the pipe (`| head`) needs no more output. */
        if ((!written || fflush(stdout) != 0) && errno != EPIPE)
            st = MF_FAIL(MF_UNAVAILABLE, "cannot write the output: %s", strerror(errno));
    }
    mf_buf_deinit(text);
    return st;
}

mf_status mf_cli_print_done(mf_status st, mf_buf *text)
{
    mf_error why;
    mf_status printed;

    mf_error_save(st, &why);
    printed = mf_cli_print(text);
    return st == MF_OK ? printed : mf_error_restore(&why);
}
