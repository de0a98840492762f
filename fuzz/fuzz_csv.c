/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_csv.c - the first byte is the delimiter, the rest a table. Cells must stay inside their
 * memory, and
 * rows written with every cell quoted must parse to the same cells. */
#include "formats/csv.h"

#include <stdint.h>
#include <string.h>

static void write_row(const mf_csv *c, mf_buf *out)
{
    for (int64_t i = 0; i < c->n_cells; i++) {
        mf_buf_bytes(out, i > 0 ? ",\"" : "\"", i > 0 ? 2 : 1);
        for (size_t k = 0; k < c->cells[i].len; k++) {
            mf_buf_bytes(out, &c->cells[i].data[k], 1);
            if (c->cells[i].data[k] == '"')
                mf_buf_bytes(out, "\"", 1);
        }
        mf_buf_bytes(out, "\"", 1);
    }
    mf_buf_bytes(out, "\r\n", 2);
}

static bool same_row(const mf_csv *a, const mf_csv *b)
{
    bool same = a->n_cells == b->n_cells;

    for (int64_t i = 0; same && i < a->n_cells; i++)
        same = a->cells[i].len == b->cells[i].len &&
               memcmp(a->cells[i].data, b->cells[i].data, a->cells[i].len) == 0;
    return same;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_csv c, again;

    if (size < 1 || data[0] == '"' || data[0] == '\n' || data[0] == '\r')
        return 0;
    mf_csv_init(&c, "input", data + 1, size - 1, (char)data[0]);
    while (mf_csv_next(&c) == MF_OK) {
        mf_buf row = { 0 };

        MF_ASSERT(c.n_cells > 0);
        write_row(&c, &row);
        mf_csv_init(&again, "row", row.data, row.len, ',');
        MF_ASSERT(mf_csv_next(&again) == MF_OK && same_row(&c, &again));
        mf_csv_deinit(&again);
        mf_buf_deinit(&row);
    }
    mf_csv_deinit(&c);
    return 0;
}
