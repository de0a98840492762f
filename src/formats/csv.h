/* SPDX-License-Identifier: Apache-2.0 */
/* csv.h - tables as text (RFC 4180): cells between delimiters, quoted if they contain one, lines
 * that end in \n or \r\n. Spaces around cells and around quotes are ignored. */
#ifndef MF_FORMATS_CSV_H
#define MF_FORMATS_CSV_H

#include "base/buf.h"

enum { MF_CSV_CELLS = 1 << 16 }; /* maximum per row */

typedef struct mf_csv_cell {
    const char *data; /* NUL-terminated */
    size_t len;
} mf_csv_cell;

typedef struct mf_csv {
    const char *at, *end; /* borrowed: the text not read yet */
    const char *name; /* for error messages */
    char delimiter;
    int64_t line; /* of the next row, from 1 */
    mf_csv_cell *cells; /* of the newest row */
    int64_t n_cells, cap_cells;
    mf_buf text; /* of those cells */
} mf_csv;

void mf_csv_init(mf_csv *c, const char *name, const void *text, size_t len, char delimiter);
void mf_csv_deinit(mf_csv *c);
/* Reads the next row into c->cells, valid until the next call. Empty lines are skipped.
 * Fails: OUT_OF_RANGE (end), DATA_LOSS naming the line (unterminated quote, text after a closing
 * quote, too many cells). */
MF_MUST mf_status mf_csv_next(mf_csv *c);

#endif
