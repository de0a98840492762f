/* SPDX-License-Identifier: Apache-2.0 */
/* layer_overrides.c - parses and applies overrides of layer settings by name pattern. */
#include "models/layer_overrides.h"

#include "base/did_you_mean.h"

#include <fnmatch.h>
#include <string.h>

/* Parses the next "dense units=64; ..." into a pattern and its settings, in the arena, and advances
 * *text. *pattern NULL: none left. */
static mf_status next_change(const char **text, mf_arena *arena, const char **pattern,
                             const char **settings)
{
    size_t n, word;
    const char *at;

    *text += strspn(*text, " ;\t\n");
    at = *text;
    n = strcspn(at, ";");
    word = strcspn(at, " ;\t\n");
    *pattern = NULL;
    if (n == 0)
        return MF_OK;
    *text += n;
    *pattern = mf_arena_strndup(arena, at, word);
    *settings = mf_arena_strndup(arena, at + word, n - word);
    return *pattern && *settings ? MF_OK : MF_NOMEM("changes of layers");
}

/* True if the layer has all settings of "units=64 rank=8". */
static bool has_all(const mf_options *o, const char *settings)
{
    for (settings += strspn(settings, " ,\t\n"); *settings;) {
        const size_t n = strcspn(settings, "= ,\t\n");
        bool found = false;

        for (int i = 0; i < o->n && !found; i++)
            found = strlen(o->attrs[i].name) == n && strncmp(o->attrs[i].name, settings, n) == 0;
        if (!found)
            return false;
        settings += strcspn(settings, " ,\t\n");
        settings += strspn(settings, " ,\t\n");
    }
    return true;
}

mf_status mf_layer_overrides_apply(mf_model *model, const char *layer, const char *signature,
                                   mf_options *o)
{
    const char *text = model->changes ? model->changes : "", *pattern, *settings;
    mf_arena *arena = model->graph->arena;

    for (;;) {
        MF_TRY(next_change(&text, arena, &pattern, &settings));
        if (!pattern)
            return MF_OK;
        if (fnmatch(pattern, layer, 0) == 0 && (!strchr(pattern, '*') || has_all(o, settings)))
            MF_TRY(mf_options_change(o, signature, settings, arena));
    }
}

mf_status mf_layer_overrides_check(const mf_model *model)
{
    const char *text = model->changes ? model->changes : "", *pattern, *settings;

    for (;;) {
        mf_did_you_mean close;
        bool found = false;

        MF_TRY(next_change(&text, model->graph->arena, &pattern, &settings));
        if (!pattern)
            return MF_OK;
        close = mf_did_you_mean_to(pattern);
        for (int64_t i = 0; i < model->n_made && !found; i++) {
            found = fnmatch(pattern, model->made[i].name, 0) == 0;
            mf_did_you_mean_try(&close, model->made[i].name);
        }
        if (!found && mf_model_status(model) == MF_OK)
            return MF_FAIL(MF_NOT_FOUND, "changes: no layer is called '%.60s'%s%s%s", pattern,
                           close.best ? "; did you mean '" : "", close.best ? close.best : "",
                           close.best ? "'?" : "");
    }
}
