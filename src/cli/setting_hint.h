/* SPDX-License-Identifier: Apache-2.0 */
/* setting_hint.h - settings of a model, an optimizer or the data that were given as options. */
#ifndef MF_CLI_SETTING_HINT_H
#define MF_CLI_SETTING_HINT_H

#include "cli/command.h"

/* "--units" is none, but units is a setting: the hint says where it goes. False: it is no setting
 * of anything that the command takes. */
bool mf_setting_hint(mf_args *args, const char *name);

#endif
