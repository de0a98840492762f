/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_device_name.c - device names: parse, print, parse, compare. */
#include "base/mem.h"
#include "graph/device_name.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = mf_strndup((const char *)data, size);
    char printed[MF_DEVICE_NAME_MAX], again[MF_DEVICE_NAME_MAX];
    mf_device_name d, e;

    MF_ASSERT(text);
    if (mf_device_name_parse(text, &d) == MF_OK) {
        MF_ASSERT(mf_device_name_parse(mf_device_name_print(&d, printed), &e) == MF_OK);
        MF_ASSERT(strcmp(mf_device_name_print(&e, again), printed) == 0);
        MF_ASSERT(mf_device_name_is(&d, &e) && mf_device_name_is(&e, &d));
    }
    mf_free(text);
    return 0;
}
