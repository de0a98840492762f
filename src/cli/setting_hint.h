/* SPDX-License-Identifier: Apache-2.0 */
/* setting_hint.h - hints for settings of a model, an optimizer or the data that were given as
 * options. */
#ifndef MF_CLI_SETTING_HINT_H
#define MF_CLI_SETTING_HINT_H

#include "cli/command.h"

/* "--units" is not an option, but units is a setting: adds a hint how to give it. False: `name` is
 * not a setting of anything that the command takes. */
bool mf_setting_hint(mf_args *args, const char *name);

#endif
