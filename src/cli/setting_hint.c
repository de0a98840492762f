/* SPDX-License-Identifier: Apache-2.0 */
/* setting_hint.c - the hint for a setting that was given as an option. */
#include "cli/setting_hint.h"

#include "data/source.h"
#include "models/zoo.h"
#include "train/optim/optimizer.h"

#include <ctype.h>
#include <string.h>

/* A signature such as "{units: list(int) = [128]}" has this name. */
static bool has_setting(const char *signature, const char *name)
{
    const size_t n = strlen(name);

    for (const char *at = signature; (at = strstr(at, name)) != NULL; at += n) {
        const bool begins = at > signature && !isalnum((unsigned char)at[-1]) && at[-1] != '_';

        if (begins && at[n] == ':')
            return true;
    }
    return false;
}

static const char *model_with(const char *name)
{
    for (const mf_zoo_kind *const *f = mf_zoo_families; *f; f++) {
        for (const mf_zoo_kind *k = *f; k->name; k++) {
            if (has_setting(k->settings, name))
                return k->name;
        }
    }
    return NULL;
}

static const char *optimizer_with(const char *name)
{
    for (const mf_optimizer_kind *k = mf_optimizers; k->name; k++) {
        if (has_setting(k->settings, name))
            return k->name;
    }
    return NULL;
}

static bool data_has(const char *name)
{
    for (int i = 0; mf_sources[i]; i++) {
        if (has_setting(mf_sources[i]->settings, name))
            return true;
    }
    return false;
}

static bool takes(const mf_command *command, const char *option)
{
    for (const mf_option *o = command ? command->options : NULL; o && o->name; o++) {
        if (strcmp(o->name, option) == 0)
            return true;
    }
    return false;
}

bool mf_setting_hint(mf_args *args, const char *name)
{
    const char *model = takes(args->command, "model") ? model_with(name) : NULL;
    const char *optimizer = takes(args->command, "optimizer") ? optimizer_with(name) : NULL;

    if (model)
        mf_args_hint(args, "%s is a setting of the model, as in --model '%s %s=...'", name, model,
                     name);
    else if (optimizer)
        mf_args_hint(args, "%s is a setting of the optimizer, as in --optimizer '%s %s=...'", name,
                     optimizer, name);
    else if (takes(args->command, "set") && data_has(name))
        mf_args_hint(args, "%s is a setting of the data: --set '%s=...'", name, name);
    else
        return false;
    return true;
}
