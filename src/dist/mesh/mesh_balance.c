/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_balance.c - uneven split of a dimension along a mesh axis, by measured device speeds. A
 * place's speed is its share by the time that its slowest device was at work. */
#include "dist/mesh/mesh_balance.h"

#include "base/mem.h"

#include <string.h>

enum { SHORTEST = 20, LONGEST = 1000, WHOLE = 100 }; /* steps; the sum of all shares, about */
static const double WORTH_IT = 0.85;

void mf_mesh_balance_init(mf_mesh_balance *b)
{
    *b = (mf_mesh_balance){ .pause = SHORTEST };
}

void mf_mesh_balance_deinit(mf_mesh_balance *b)
{
    mf_free(b->busy);
    *b = (mf_mesh_balance){ 0 };
}

void mf_mesh_balance_restart(mf_mesh_balance *b, int64_t step)
{
    b->looked = step;
    mf_free(b->busy);
    b->busy = NULL;
}

bool mf_mesh_balance_is_due(const mf_mesh_balance *b, const mf_meshes *meshes, int64_t step)
{
    return meshes->n == 1 && step >= b->looked + b->pause;
}

/* The first axis that splits a dimension; -1: none, or it is too long. */
static int mesh_balance_find_axis(const mf_mesh *m, const mf_layout_rules *rules)
{
    for (int a = 0; a < m->n_axes; a++) {
        for (int i = 0; i < rules->n; i++) {
            if (strcmp(rules->axis[i], m->name[a]) == 0)
                return m->size[a] <= MF_MESH_SHARES ? a : -1;
        }
    }
    return -1;
}

static double mesh_balance_share_of(const mf_mesh *m, int axis, int at)
{
    const int32_t *before = m->before[axis];

    return before[m->size[axis]] > 0 ? (double)(before[at + 1] - before[at]) / before[m->size[axis]]
                                     : 1.0 / m->size[axis];
}

/* false: a device has no measured time. */
static bool find_speeds(const mf_mesh *m, int axis, const int64_t *busy, double *speed)
{
    double longest[MF_MESH_SHARES] = { 0 };

    for (int p = 0; p < m->n; p++) {
        const int at = mf_mesh_at(m, p, axis);

        longest[at] = (double)busy[p] > longest[at] ? (double)busy[p] : longest[at];
    }
    for (int i = 0; i < m->size[axis]; i++) {
        if (longest[i] <= 0)
            return false;
        speed[i] = mesh_balance_share_of(m, axis, i) / longest[i];
    }
    return true;
}

/* Until the slowest is done. */
static double mesh_balance_time_of(const mf_mesh *m, int axis, const double *speed)
{
    double most = 0;

    for (int i = 0; i < m->size[axis]; i++) {
        const double t = mesh_balance_share_of(m, axis, i) / speed[i];

        most = t > most ? t : most;
    }
    return most;
}

static mf_mesh share_out(const mf_mesh *m, int axis, const double *speed)
{
    mf_mesh out = *m;
    double sum = 0;

    for (int i = 0; i < m->size[axis]; i++)
        sum += speed[i];
    for (int i = 0; i < m->size[axis]; i++) {
        const int32_t share = (int32_t)(speed[i] / sum * WHOLE + 0.5);

        out.before[axis][i + 1] = out.before[axis][i] + (share > 0 ? share : 1);
    }
    return out;
}

static bool find_better(const mf_mesh *m, const mf_layout_rules *rules, const int64_t *busy,
                        mf_mesh *out)
{
    const int axis = mesh_balance_find_axis(m, rules);
    double speed[MF_MESH_SHARES] = { 0 };

    if (axis < 0 || !find_speeds(m, axis, busy, speed))
        return false;
    *out = share_out(m, axis, speed);
    return mesh_balance_time_of(out, axis, speed) < WORTH_IT * mesh_balance_time_of(m, axis, speed);
}

mf_status mf_mesh_balance_look(mf_mesh_balance *b, const mf_meshes *meshes,
                               const mf_layout_rules *rules, int64_t step, const int64_t *busy,
                               mf_mesh *out, bool *better)
{
    const mf_mesh *m = &meshes->at[0];
    int64_t *since = mf_calloc(m->n, sizeof *since);

    if (!since)
        return MF_NOMEM("speeds");
    for (int p = 0; p < m->n; p++)
        since[p] = busy[p] - (b->busy ? b->busy[p] : 0);
    *better = b->busy && find_better(m, rules, since, out); /* the first steps are no measure */
    memcpy(since, busy, (size_t)m->n * sizeof *since);
    mf_free(b->busy);
    b->busy = since;
    b->looked = step;
    b->pause = !*better && b->pause < LONGEST ? 2 * b->pause : SHORTEST;
    return MF_OK;
}
