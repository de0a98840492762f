/* SPDX-License-Identifier: Apache-2.0 */
/* hook.c - names and fetched values of the built-in hooks. */
#include "train/loop/hook.h"

#include "base/host_state.h"

#include <string.h>

mf_status mf_hook_names_init(mf_hook_names *names, const char *const *from, int n)
{
    *names = (mf_hook_names){ .at = mf_calloc(n + 1, sizeof *names->at) };
    if (!names->at)
        return MF_NOMEM("a hook");
    for (; names->n < n; names->n++) {
        names->at[names->n] = mf_strdup(from[names->n]);
        if (!names->at[names->n])
            return MF_NOMEM("a hook");
    }
    return MF_OK;
}

void mf_hook_names_deinit(mf_hook_names *names)
{
    for (int i = 0; i < names->n; i++)
        mf_free((char *)(uintptr_t)names->at[i]);
    mf_free(names->at);
}

mf_status mf_hook_names_run(const mf_hook_names *names, mf_hook_loop *loop, mf_tensor **results)
{
    return mf_session_run(loop->session, NULL, NULL, NULL, 0, (const char *const *)names->at,
                          names->n, NULL, 0, results);
}

void mf_hook_free(mf_hook *hook)
{
    MF_ENTRY_OR();
    if (!hook)
        return;

    MF_CALLBACK;
    if (hook->release)
        hook->release(hook->ctx);
    memset(hook, 0, sizeof *hook);
}
