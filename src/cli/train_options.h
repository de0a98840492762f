/* SPDX-License-Identifier: Apache-2.0 */
/* train_options.h - what the options of `meshflow train` say of how a model is trained. */
#ifndef MF_CLI_TRAIN_OPTIONS_H
#define MF_CLI_TRAIN_OPTIONS_H

#include "cli/command.h"

#include <meshflow/meshflow.h>

/* compile, fit: completed by what is given. Owns: strings are borrowed from args. Fails as a wrong
 * call. */
MF_MUST mf_status mf_train_options_read(mf_args *args, mf_compile_options *compile,
                                        mf_fit_options *fit);
/* The hook that --stop and --converged-after ask for; empty where neither is given. Fails in the
 * same way. */
MF_MUST mf_status mf_train_options_stop(mf_args *args, mf_hook *out);

#endif
