/* SPDX-License-Identifier: Apache-2.0 */
/* task_table.c - job names, indices and addresses of the tasks of a cluster. */
#include "tf_server/task_table.h"

#include "base/file.h"

#include <ctype.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1 << 20, INDEX_MAX = 65535, NAME_MAX_BYTES = MF_DEVICE_JOB_MAX - 1 };

/* ---- adding ---- */

static mf_status task_table_add(mf_server_tasks *t, const char *job, int64_t index,
                                const json_t *address)
{
    const char *at = json_string_value(address);
    mf_server_task *task = &t->all[t->n];
    char name[NAME_MAX_BYTES + 64];

    if (!at || !strchr(at, ':'))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "cluster.%s[%lld]: write the address of the task as \"host:port\"", job,
                       (long long)index);
    if (mf_server_tasks_find(t, job, (int)index) >= 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "cluster.%s: task %lld is given twice", job,
                       (long long)index);
    (void)snprintf(name, sizeof name, "/job:%s/replica:0/task:%lld", job, (long long)index);
    *task = (mf_server_task){ .job = mf_arena_strdup(t->arena, job),
                              .index = (int)index,
                              .address = mf_arena_strdup(t->arena, at),
                              .name = mf_arena_strdup(t->arena, name),
                              .device = mf_arena_printf(t->arena, "%s/device:CPU:0", name) };
    t->n++;
    return task->job && task->address && task->name && task->device ? MF_OK : MF_NOMEM("tasks");
}

static bool is_job_name(const char *name)
{
    const size_t n = strlen(name);

    if (n == 0 || n > NAME_MAX_BYTES || !isalpha((unsigned char)name[0]))
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == n;
}

static size_t count_tasks(json_t *cluster)
{
    const char *job;
    json_t *tasks;
    size_t n = 0;

    json_object_foreach(cluster, job, tasks) n +=
        json_is_object(tasks) ? json_object_size(tasks) : json_array_size(tasks);
    return n;
}

/* A JSON list, or an object by index if tasks are missing. */
static mf_status task_table_add_job(mf_server_tasks *t, const char *job, json_t *tasks)
{
    const char *key;
    json_t *address;
    size_t i;

    if (!is_job_name(job))
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "cluster: '%.60s' is not a valid job name; use letters, digits and _", job);
    json_array_foreach(tasks, i, address) MF_TRY(task_table_add(t, job, (int64_t)i, address));
    json_object_foreach(tasks, key, address)
    {
        char *end;
        const long index = strtol(key, &end, 10);

        if (*key == '\0' || *end != '\0' || index < 0 || index > INDEX_MAX)
            return MF_FAIL(MF_INVALID_ARGUMENT, "cluster.%s: '%.40s' is not a task index", job,
                           key);
        MF_TRY(task_table_add(t, job, index, address));
    }
    if (!json_is_array(tasks) && !json_is_object(tasks))
        return MF_FAIL(MF_INVALID_ARGUMENT, "cluster.%s: write its tasks as [\"host:port\", ...]",
                       job);
    return MF_OK;
}

/* ---- this task ---- */

static mf_status task_table_find_self(mf_server_tasks *t, const char *job, const char *index,
                                      const json_t *task)
{
    const char *type = json_string_value(json_object_get(task, "type"));
    int64_t number = json_integer_value(json_object_get(task, "index"));
    char *end = NULL;

    if (index)
        number = strtol(index, &end, 10);
    if (index && (*index == '\0' || *end != '\0'))
        return MF_FAIL(MF_INVALID_ARGUMENT, "--task_index: '%.40s' is not a number", index);
    job = job ? job : type;
    if (!job && t->n == 1)
        job = t->all[0].job;
    if (!job)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "cannot tell which of the %d tasks this is: set --job_name and "
                       "--task_index",
                       t->n);
    t->self = number >= 0 && number <= INDEX_MAX ? mf_server_tasks_find(t, job, (int)number) : -1;
    if (t->self < 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "the cluster has no task %lld of job '%.60s'; change --job_name and "
                       "--task_index, or the cluster",
                       (long long)number, job);
    return MF_OK;
}

/* ---- reading ---- */

/* This task; NULL: not given. */
typedef struct own_task {
    const char *job, *index;
} own_task;

static mf_status task_table_read_json(mf_server_tasks *t, json_t *root, const own_task *own)
{
    json_t *inner = json_object_get(root, "cluster");
    json_t *cluster = json_is_object(inner) ? inner : root, *tasks;
    const char *name;

    if (!json_is_object(cluster) || count_tasks(cluster) == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "the cluster has no tasks; write {\"worker\": [\"host:port\"]}");
    t->all = MF_ARENA_ARRAY(t->arena, mf_server_task, (int64_t)count_tasks(cluster));
    if (!t->all)
        return MF_NOMEM("tasks");
    json_object_foreach(cluster, name, tasks) MF_TRY(task_table_add_job(t, name, tasks));
    return own ? task_table_find_self(t, own->job, own->index,
                                      cluster == inner ? json_object_get(root, "task") : NULL)
               : MF_OK;
}

static mf_status task_table_read_text(mf_server_tasks *t, const char *text, size_t len,
                                      const own_task *own)
{
    json_error_t error;
    json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
    mf_status st = root ? task_table_read_json(t, root, own)
                        : MF_FAIL(MF_INVALID_ARGUMENT, "the cluster is not JSON: line %d, %s",
                                  error.line, error.text);

    json_decref(root);
    return st;
}

static mf_status read_tasks(const char *text, const own_task *own, mf_server_tasks *out)
{
    static const char alone[] = "{\"local\": [\"127.0.0.1:0\"]}";
    char *file = NULL;
    size_t len = 0;
    mf_status st = MF_OK;

    *out = (mf_server_tasks){ .arena = mf_arena_new(), .self = -1 };
    if (!out->arena)
        return MF_NOMEM("tasks");
    if (!text)
        text = getenv("TF_CONFIG");
    if (!text || *text == '\0')
        text = alone;
    if (text[strspn(text, " \t\r\n")] != '{') {
        st = mf_file_read(text, TEXT_MAX, &file, &len);
        text = file;
    } else {
        len = strlen(text);
    }
    if (st == MF_OK)
        st = task_table_read_text(out, text, len, own);
    mf_free(file);
    return st;
}

mf_status mf_server_tasks_read(const char *text, const char *job, const char *index,
                               mf_server_tasks *out)
{
    return read_tasks(text, &(own_task){ job, index }, out);
}

mf_status mf_server_tasks_list(const char *text, mf_server_tasks *out)
{
    return read_tasks(text, NULL, out);
}

void mf_server_tasks_deinit(mf_server_tasks *t)
{
    mf_arena_free(t->arena);
    *t = (mf_server_tasks){ 0 };
}

mf_status mf_server_tasks_move(mf_server_tasks *t, int task, const char *address)
{
    const char *copy;

    if (strcmp(t->all[task].address, address) == 0)
        return MF_OK; /* unchanged: other threads may be reading it */
    copy = mf_arena_strdup(t->arena, address);
    if (!copy)
        return MF_NOMEM("tasks");
    t->all[task].address = copy;
    return MF_OK;
}

int mf_server_tasks_find(const mf_server_tasks *t, const char *job, int index)
{
    for (int i = 0; i < t->n; i++) {
        if (t->all[i].index == index && strcmp(t->all[i].job, job) == 0)
            return i;
    }
    return -1;
}

mf_device_name mf_server_task_device(const mf_server_task *t)
{
    mf_device_name d = { .type = "CPU", .replica = 0, .task = t->index, .index = 0 };

    (void)snprintf(d.job, sizeof d.job, "%s", t->job);
    return d;
}

mf_status mf_server_task_failed(const mf_server_task *t, mf_status st)
{
    char before[200];

    if (strncmp(mf_error_message(), "From ", 5) == 0)
        return st;
    (void)snprintf(before, sizeof before, "From %.150s:\n", t->name);
    return mf_error_wrap(st, before, "");
}
