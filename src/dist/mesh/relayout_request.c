/* SPDX-License-Identifier: Apache-2.0 */
/* relayout_request.c - requests to the workers of a mesh (stop, re-rendezvous, another layout), and
 * their agreement on one before a step. */
#include "dist/mesh/relayout_request.h"

#include "base/mem.h"
#include "dist/step_flags.h"

#include <stdio.h>
#include <string.h>

void mf_relayout_request_init(mf_relayout_request *w)
{
    pthread_mutex_init(&w->lock, NULL);
}

void mf_relayout_request_deinit(mf_relayout_request *w)
{
    pthread_mutex_destroy(&w->lock);
}

bool mf_relayout_request_text(const mf_mesh_spec *s, mf_status_page_layout *out)
{
    mf_buf mesh = { 0 }, layout = { 0 };
    bool fits;

    *out = (mf_status_page_layout){ 0 };
    mf_mesh_spec_text(s, &mesh, &layout);
    fits = mf_buf_finish(&mesh) == MF_OK && mf_buf_finish(&layout) == MF_OK &&
           mesh.len < sizeof out->mesh && layout.len < sizeof out->layout;
    (void)snprintf(out->mesh, sizeof out->mesh, "%s", mesh.data ? mesh.data : "");
    (void)snprintf(out->layout, sizeof out->layout, "%s", layout.data ? layout.data : "");
    mf_buf_deinit(&mesh);
    mf_buf_deinit(&layout);
    return fits;
}

mf_status mf_relayout_request_set(mf_relayout_request *w, const mf_mesh_spec *to)
{
    mf_status_page_layout text;
    mf_meshes meshes;

    if (!mf_relayout_request_text(to, &text))
        return MF_FAIL(MF_INVALID_ARGUMENT, "a mesh has at most %d letters, a layout %d",
                       (int)sizeof w->is.mesh - 1, (int)sizeof w->is.layout - 1);
    MF_TRY(mf_mesh_spec_expand(to, &meshes));
    pthread_mutex_lock(&w->lock);
    w->there = true;
    w->is = text;
    pthread_mutex_unlock(&w->lock);
    return MF_OK;
}

static void relayout_request_take(mf_relayout_request *w, mf_mesh_agreed *out)
{
    out->by_board = mf_status_page_take_layout(&out->to);
    if (out->by_board)
        return;
    pthread_mutex_lock(&w->lock);
    out->by_call = w->there;
    out->to = w->is;
    w->there = false;
    pthread_mutex_unlock(&w->lock);
}

void mf_relayout_request_answer(mf_relayout_request *w, const mf_mesh_agreed *a,
                                mf_variable_request what, const char *words)
{
    if (a->by_board)
        mf_status_page_answer_layout(what, words);
    if (!a->by_call || what != MF_VARIABLE_REQUEST_MADE)
        return;
    pthread_mutex_lock(&w->lock);
    w->there = true; /* the last request counts */
    pthread_mutex_unlock(&w->lock);
}

/* The first worker that requests another layout sends it. */
static mf_status share_layout(mf_relayout_request *w, mf_dist *dist, int64_t step, int first,
                              mf_mesh_agreed *out)
{
    mf_status_page_layout *all = mf_calloc(dist->size, sizeof *all);
    mf_status st =
        all ? mf_dist_all_gather(dist, step, "the new layout", &out->to, (int64_t)sizeof *all, all)
            : MF_NOMEM("flags");

    if (st == MF_OK)
        out->to = all[first];
    out->to.mesh[sizeof out->to.mesh - 1] = out->to.layout[sizeof out->to.layout - 1] = '\0';
    mf_free(all);
    if (st == MF_OK && first != dist->rank) {
        mf_relayout_request_answer(w, out, MF_VARIABLE_REQUEST_REFUSED,
                                   "another worker requested another layout");
        out->by_board = out->by_call = false;
    }
    return st;
}

typedef struct vote {
    int32_t flags, change;
} vote;

static mf_status relayout_request_count_flags(mf_relayout_request *w, mf_dist *dist, int64_t step,
                                              mf_mesh_agreed *out)
{
    const vote mine = { out->flags, out->change };
    vote *all = mf_calloc(dist->size, sizeof *all);
    mf_status st =
        all ? mf_dist_all_gather(dist, step, "the flags", &mine, (int64_t)sizeof mine, all)
            : MF_NOMEM("flags");
    int first = -1;

    out->flags = 0;
    for (int i = 0; st == MF_OK && i < dist->size; i++) {
        out->flags = mf_step_flags_join(out->flags, all[i].flags);
        if (first < 0 && all[i].change)
            first = i;
    }
    out->change = first >= 0;
    if (st == MF_OK && out->change)
        st = share_layout(w, dist, step, first, out);
    mf_free(all);
    return st;
}

mf_status mf_relayout_request_agree(mf_relayout_request *w, mf_dist *dist, int64_t step, int flags,
                                    mf_mesh_agreed *out)
{
    mf_status st = MF_OK;

    *out = (mf_mesh_agreed){ .flags = flags };
    relayout_request_take(w, out);
    out->change = out->by_board || out->by_call;
    if (dist->group)
        st = relayout_request_count_flags(w, dist, step, out);
    if (st != MF_OK)
        mf_relayout_request_answer(w, out, MF_VARIABLE_REQUEST_MADE, "");
    return st;
}
