/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_opdef.c - the text of signatures and attributes: parse, print, parse, compare. */
#include "graph/opdef.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void print_and_read(const mf_opdef *def, mf_arena *arena)
{
    mf_buf first = { 0 }, second = { 0 };
    mf_opdef again;

    mf_opdef_print(def, &first);
    if (mf_buf_finish(&first) == MF_OK && strlen(first.data) == first.len) {
        MF_ASSERT(mf_opdef_parse("Op", first.data, arena, &again) == MF_OK);
        mf_opdef_print(&again, &second);
        MF_ASSERT(mf_buf_finish(&second) != MF_OK || strcmp(first.data, second.data) == 0);
    }
    mf_buf_deinit(&first);
    mf_buf_deinit(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    mf_arena *arena = mf_arena_new();
    char *text = mf_strndup((const char *)data, size);
    mf_opdef def;

    if (arena && text && size > 0) {
        const char *p = text + 1;
        mf_attr attr;

        mf_arena_limit(arena, (size_t)64 << 20);
        if (mf_opdef_parse("Op", text, arena, &def) == MF_OK)
            print_and_read(&def, arena);
        if (mf_attr_parse(&p, (mf_attr_kind)(MF_ATTR_STRING + data[0] % 6), data[0] >= 128, arena,
                          &attr) == MF_OK)
            MF_ASSERT(p <= text + size);
    }
    mf_free(text);
    mf_arena_free(arena);
    return 0;
}
