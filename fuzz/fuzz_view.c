/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_view.c - membership views, as in a store: parse, write, parse, compare. */
#include "cluster/membership/membership.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_view v, again;
    mf_buf text = { 0 };

    if (mf_view_parse((const char *)data, size, &v) != MF_OK)
        return 0;
    MF_ASSERT(mf_view_print(&v, &text) == MF_OK);
    MF_ASSERT(mf_view_parse(text.data, text.len, &again) == MF_OK);
    MF_ASSERT(again.epoch == v.epoch && again.n == v.n);
    for (int i = 0; i < v.n; i++)
        MF_ASSERT(strcmp(again.members[i].name, v.members[i].name) == 0 &&
                  strcmp(again.members[i].id, v.members[i].id) == 0);
    mf_view_deinit(&again);
    mf_view_deinit(&v);
    mf_buf_deinit(&text);
    return 0;
}
