/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command.h"

#include <stdio.h>

mf_status mf_cli_print(mf_buf *text)
{
    const mf_status st = mf_buf_finish(text);

    /* What cannot be written is found at the end, by ferror(). */
    if (st == MF_OK && text->len > 0)
        (void)fwrite(text->data, 1, text->len, stdout);
    mf_buf_deinit(text);
    return st;
}
