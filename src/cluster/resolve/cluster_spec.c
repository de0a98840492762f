/* SPDX-License-Identifier: Apache-2.0 */
/* cluster_spec.c - asking a description. */
#include "cluster/resolve/cluster_spec.h"

#include <stdio.h>
#include <string.h>

static const char *const role_names[MF_ROLES] = {
    [MF_ROLE_CHIEF] = "chief",         [MF_ROLE_WORKER] = "worker", [MF_ROLE_PS] = "ps",
    [MF_ROLE_EVALUATOR] = "evaluator", [MF_ROLE_MASTER] = "master",
};

void mf_cluster_free(mf_cluster *cluster)
{
    if (!cluster)
        return;
    mf_free(cluster->tasks);
    mf_free(cluster->facts);
    mf_free(cluster->mistakes);
    mf_free(cluster->notes);
    mf_arena_free(cluster->arena);
    mf_free(cluster);
}

const char *mf_role_name(mf_role role)
{
    return role >= 0 && role < MF_ROLES ? role_names[role] : "?";
}

bool mf_role_find(const char *name, mf_role *out)
{
    for (int i = 0; i < MF_ROLES; i++) {
        if (strcmp(role_names[i], name) == 0) {
            *out = (mf_role)i;
            return true;
        }
    }
    return false;
}

const mf_cluster_task *mf_cluster_find(const mf_cluster *cluster, mf_role role, int index)
{
    int low = 0, high = cluster->n_tasks;

    while (low < high) {
        const int middle = low + (high - low) / 2;
        const mf_cluster_task *t = &cluster->tasks[middle];

        if (t->role == role && t->index == index)
            return t;
        if (t->role < role || (t->role == role && t->index < index))
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const mf_cluster_task *mf_cluster_self(const mf_cluster *cluster)
{
    return cluster->self < 0 ? NULL : &cluster->tasks[cluster->self];
}

const mf_cluster_task *mf_cluster_rank(const mf_cluster *cluster, int rank)
{
    return rank >= 0 && rank < cluster->size ? &cluster->tasks[rank] : NULL;
}

int mf_cluster_count(const mf_cluster *cluster, mf_role role)
{
    int n = 0;

    for (int i = 0; i < cluster->n_tasks; i++)
        n += cluster->tasks[i].role == role;
    return n;
}

bool mf_cluster_is_chief(const mf_cluster *cluster, const mf_cluster_task *task)
{
    if (!task)
        return false;
    if (task->role == MF_ROLE_CHIEF)
        return task->index == 0;
    return task->role == MF_ROLE_WORKER && task->index == 0 &&
           mf_cluster_count(cluster, MF_ROLE_CHIEF) == 0;
}

const char *mf_cluster_task_name(const mf_cluster_task *task, char text[MF_TASK_NAME_MAX])
{
    (void)snprintf(text, MF_TASK_NAME_MAX, "/job:%s/task:%d", mf_role_name(task->role),
                   task->index);
    return text;
}

void mf_cluster_write_tf_config(const mf_cluster_task *tasks, int n, mf_role role, int index,
                                mf_buf *out)
{
    mf_buf_str(out, "{\"cluster\":{");
    for (int i = 0; i < n; i++) {
        const bool first = i == 0 || tasks[i].role != tasks[i - 1].role;

        if (first)
            mf_buf_printf(out, "%s\"%s\":[", i > 0 ? "]," : "", mf_role_name(tasks[i].role));
        mf_buf_printf(out, "%s\"%s\"", first ? "" : ",", tasks[i].address);
    }
    mf_buf_printf(out, "%s},\"task\":{\"type\":\"%s\",\"index\":%d}}", n > 0 ? "]" : "",
                  mf_role_name(role), index);
}
