/* SPDX-License-Identifier: Apache-2.0 */
/* launch_store.c - the membership store of a launched job: a folder beside the status pages. */
#include "base/file.h"
#include "cluster/store/store.h"
#include "observe/status_page.h"
#include "supervisor/launch.h"
#include "supervisor/leftovers.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

mf_status mf_launch_store_make(mf_launch *l)
{
    const char *given = getenv("MESHFLOW_STORE");
    mf_buf dir = { 0 }, url = { 0 };
    mf_status st;

    if (given && given[0] != '\0') {
        l->store = mf_strdup(given);
        return l->store ? MF_OK : MF_NOMEM("a store");
    }
    st = mf_status_page_dir(&dir);
    if (st == MF_OK)
        st = mf_dir_make_own(dir.data);
    mf_buf_printf(&dir, "/store-%d", (int)getpid());
    mf_buf_printf(&url, "file:%s", dir.failed ? "" : dir.data);
    if (st == MF_OK)
        st = mf_buf_finish(&dir);
    if (st == MF_OK)
        st = mf_buf_finish(&url);
    if (st != MF_OK) {
        mf_buf_deinit(&dir);
        mf_buf_deinit(&url);
        return st;
    }
    l->store_dir = dir.data;
    l->store = url.data;
    mf_leftovers_remove_tree(AT_FDCWD, l->store_dir,
                             2); /* left by a killed launcher with the same process id */
    return MF_OK;
}

/* True if the store has a key with this prefix. */
static bool launch_store_has(const mf_launch *l, const char *prefix)
{
    mf_store_entries all = { 0 };
    mf_store *store;
    bool found;

    if (!l->store || mf_store_open(l->store, NULL, &store) != MF_OK)
        return false;
    found = mf_store_list(store, prefix, &all) == MF_OK && all.n > 0;
    mf_store_entries_deinit(&all);
    mf_store_close(store);
    return found;
}

bool mf_launch_has_members(const mf_launch *l)
{
    return launch_store_has(l, "view");
}

void mf_launch_store_remove(mf_launch *l)
{
    if (l->store_dir && !launch_store_has(l, "task/")) /* workers that joined later may still use it
                                                        */
        mf_leftovers_remove_tree(AT_FDCWD, l->store_dir, 2);
}
