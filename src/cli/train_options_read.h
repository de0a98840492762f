/* SPDX-License-Identifier: Apache-2.0 */
/* train_options_read.h - the values of the options of `meshflow train` as settings of compile and
 * fit. train_options.c has the table of the options. */
#ifndef MF_CLI_TRAIN_OPTIONS_READ_H
#define MF_CLI_TRAIN_OPTIONS_READ_H

#include "cli/command.h"

#include <meshflow/meshflow.h>

/* Completes compile and fit. Owns: strings are borrowed from args. Fails as invalid usage. */
MF_MUST mf_status mf_train_options_read(mf_args *args, mf_compile_options *compile,
                                        mf_fit_options *fit);
/* The hook of --stop and --converged-after; zero if neither is given. Fails as invalid usage. */
MF_MUST mf_status mf_train_options_stop(mf_args *args, mf_hook *out);

#endif
