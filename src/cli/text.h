/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - formatting of numbers, and properties of the terminal. */
#ifndef MF_CLI_TEXT_H
#define MF_CLI_TEXT_H

#include "base/buf.h"

enum { MF_TEXT = 40 };

/* "1,234,567" */
const char *mf_cli_count(int64_t n, char text[MF_TEXT]);
/* "0:07", "12:34", "3:04:05" */
const char *mf_cli_time(double seconds, char text[MF_TEXT]);
/* "1.5 GiB" */
void mf_cli_put_bytes(mf_buf *out, int64_t bytes);
/* A name from data, on one line: "two\nlines". At most `most` characters of it. */
void mf_cli_put_name(mf_buf *out, const char *name, int most);
/* About four digits: "0.8607", "12.34", "1.23e-05". */
const char *mf_cli_number(double v, char text[MF_TEXT]);

/* The locale allows block and braille characters. */
bool mf_cli_is_utf8(void);
/* Columns of the terminal behind this file descriptor; `otherwise` if it is not a terminal. */
int mf_cli_columns(int fd, int otherwise);
/* Columns of a UTF-8 text whose characters are all one column wide. */
int mf_cli_width(const char *text);

#endif
