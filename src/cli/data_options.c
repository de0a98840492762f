/* SPDX-License-Identifier: Apache-2.0 */
/* data_options.c - opens the data set of DATA and --set. */
#include "cli/data_options.h"

mf_status mf_cli_open_data(mf_args *args, const char *data, mf_dataset **out)
{
    mf_buf settings = { 0 };
    const char *one;
    int64_t at = 0;
    mf_status st;

    *out = NULL;
    while ((one = mf_args_next(args, "set", &at)))
        mf_buf_printf(&settings, "%s ", one);
    st = mf_buf_finish(&settings);
    if (st == MF_OK)
        st = mf_dataset_open(data, settings.data, out);
    if (st == MF_NOT_FOUND || st == MF_INVALID_ARGUMENT)
        mf_args_hint(args, "`meshflow data list` shows the known data sets, formats and settings");
    mf_buf_deinit(&settings);
    return st;
}
