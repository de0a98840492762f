/* SPDX-License-Identifier: Apache-2.0 */
/* data_options.h - commands that take a data set: DATA and --set. */
#ifndef MF_CLI_DATA_OPTIONS_H
#define MF_CLI_DATA_OPTIONS_H

#include "cli/command.h"

#include <meshflow/data.h>

#define MF_OPTION_SET                                                                              \
    {                                                                                              \
        .name = "set", .value = "SETTINGS", .help = "settings of the data, e.g. 'part=test'",      \
        .many = true                                                                               \
    }

/* Opens the data set that the first argument names. A failure gets a hint about `data list`. */
MF_MUST mf_status mf_cli_open_data(mf_args *args, const char *data, mf_dataset **out);

#endif
