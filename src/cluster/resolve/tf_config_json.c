/* SPDX-License-Identifier: Apache-2.0 */
/* tf_config_json.c - a cluster in TensorFlow's JSON:
 *
 *     {"cluster": {"worker": ["a:2222", "b:2222"], "ps": {"3": "c:2222"}},
 *      "task": {"type": "worker", "index": 1}}
 *
 * A job's tasks are a list, or a map from index to address that may lack some. Kubernetes' operator
 * calls the map "sparseCluster". */
#include "cluster/resolve/address.h"
#include "cluster/resolve/resolver.h"

#include <jansson.h>
#include <string.h>

static const char *kind(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT:
        return "a map";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "a string";
    case JSON_INTEGER:
    case JSON_REAL:
        return "a number";
    case JSON_NULL:
        return "null";
    default:
        return "a truth value";
    }
}

/* ---- "cluster" ---- */

static void decode_address(mf_cluster *c, mf_role role, int64_t index, const json_t *v,
                           const char *place)
{
    if (json_is_string(v))
        mf_cluster_add(c, role, index, json_string_value(v), place);
    else
        mf_cluster_mistake(c, place, "write \"host:port\"", "expected an address, not %s", kind(v));
}

static void tf_config_json_decode_list(mf_cluster *c, mf_role role, const json_t *list,
                                       const char *place)
{
    const size_t n = json_array_size(list);

    if (n > MF_CLUSTER_MAX_TASKS) {
        mf_cluster_mistake(c, place, "list fewer tasks", "%zu tasks are more than %d", n,
                           MF_CLUSTER_MAX_TASKS);
        return;
    }
    for (size_t i = 0; i < n; i++)
        decode_address(c, role, (int64_t)i, json_array_get(list, i),
                       mf_cluster_text(c, "%s[%zu]", place, i));
}

static void decode_map(mf_cluster *c, mf_role role, json_t *map, const char *place)
{
    const char *key;
    json_t *v;

    json_object_foreach(map, key, v)
    {
        const char *at = mf_cluster_text(c, "%s.%.40s", place, key);
        int64_t index;

        if (mf_number_parse(key, strlen(key), 0, MF_CLUSTER_MAX_TASKS - 1, &index))
            decode_address(c, role, index, v, at);
        else
            mf_cluster_mistake(c, at, "use numbers from 0 on as keys: {\"0\": \"host:port\"}",
                               "'%.40s' is no index of a task", key);
    }
}

static void decode_jobs(mf_cluster *c, json_t *jobs, const char *place)
{
    const char *key;
    json_t *v;

    json_object_foreach(jobs, key, v)
    {
        const char *at =
            mf_cluster_text(c, "%s%s%.60s", place, strchr(place, ' ') ? "." : " ", key);
        mf_role role;

        if (!mf_cluster_role(c, key, at, &role))
            continue;
        if (json_is_array(v))
            tf_config_json_decode_list(c, role, v, at);
        else if (json_is_object(v))
            decode_map(c, role, v, at);
        else
            mf_cluster_mistake(c, at, "write [\"host:port\", ...]",
                               "expected a list or a map of addresses, not %s", kind(v));
    }
}

/* ---- "task" ---- */

static bool decode_index(mf_cluster *c, const json_t *v, const char *place, int64_t *out)
{
    /* TensorFlow accepts "1" for 1. */
    if (json_is_string(v) &&
        mf_number_parse(json_string_value(v), json_string_length(v), 0, INT32_MAX, out))
        return true;
    if (json_is_integer(v) && json_integer_value(v) >= 0) {
        *out = json_integer_value(v);
        return true;
    }
    if (json_is_integer(v))
        mf_cluster_mistake(c, place, "number tasks from 0 on", "task index %lld is negative",
                           (long long)json_integer_value(v));
    else
        mf_cluster_mistake(c, place, "write a number: \"index\": 0",
                           "expected the index of a task, not %s", kind(v));
    return false;
}

static void decode_task(mf_cluster *c, json_t *task, const char *place)
{
    const json_t *type = json_object_get(task, "type"), *index = json_object_get(task, "index");
    const char *at_type = mf_cluster_text(c, "%s task.type", place);
    const char *at_index = mf_cluster_text(c, "%s task.index", place);
    mf_role role;
    int64_t i = 0;

    if (!json_is_object(task)) {
        mf_cluster_mistake(c, mf_cluster_text(c, "%s task", place),
                           "write {\"type\": \"worker\", \"index\": 0}", "expected a map, not %s",
                           kind(task));
        return;
    }
    if (!type && !index)
        return;
    if (!json_is_string(type)) {
        mf_cluster_mistake(c, at_type, "write \"type\": \"worker\"",
                           type ? "expected the name of a job, not %s" : "%s is missing",
                           type ? kind(type) : "the job");
        return;
    }
    if (!mf_cluster_role(c, json_string_value(type), at_type, &role) ||
        (index && !decode_index(c, index, at_index, &i)))
        return;
    if (!index && mf_cluster_count(c, role) > 1) {
        mf_cluster_mistake(c, at_index, "write \"index\": 0",
                           "the index is missing, and there are "
                           "%d tasks of '%s'",
                           mf_cluster_count(c, role), mf_role_name(role));
        return;
    }
    mf_cluster_own(c, role, i, mf_cluster_text(c, "%s task", place));
}

/* ---- the complete text ---- */

static json_t *tf_config_json_load(const char *text, size_t len, json_error_t *error)
{
    return json_loadb(text, len, JSON_REJECT_DUPLICATES, error);
}

static json_t *jobs_of(const json_t *top, const char **key)
{
    json_t *jobs = json_object_get(top, *key = "cluster");

    return jobs ? jobs : json_object_get(top, *key = "sparseCluster");
}

static void decode_top(mf_cluster *c, json_t *top, const char *place)
{
    const char *key;
    json_t *jobs = jobs_of(top, &key), *task = json_object_get(top, "task");
    const json_t *layer = json_object_get(top, "rpc_layer");
    const char *at = mf_cluster_text(c, "%s %s", place, key);

    if (!jobs && !task) {
        decode_jobs(c, top, place);
        return;
    }
    if (json_is_object(jobs))
        decode_jobs(c, jobs, at);
    else if (jobs)
        mf_cluster_mistake(c, at, "write {\"worker\": [\"host:port\", ...]}",
                           "expected a map from jobs to tasks, not %s", kind(jobs));
    if (task)
        decode_task(c, task, place);
    if (json_is_string(layer) && strcmp(json_string_value(layer), "grpc") != 0)
        mf_cluster_note(c, "%s rpc_layer '%.40s' is not used: tasks speak gRPC", place,
                        json_string_value(layer));
}

void mf_tf_config_decode(mf_cluster *c, const char *text, size_t len, const char *place)
{
    json_error_t error;
    json_t *top;

    if (len > MF_CLUSTER_MAX_BYTES) {
        mf_cluster_mistake(c, place, "describe the cluster in less", "%zu bytes are more than %d",
                           len, MF_CLUSTER_MAX_BYTES);
        return;
    }
    top = tf_config_json_load(text, len, &error);
    if (!top)
        mf_cluster_mistake(
            c, mf_cluster_text(c, "%s line %d column %d", place, error.line, error.column),
            "write JSON: {\"cluster\": {\"worker\": [\"host:port\"]}, \"task\": "
            "{\"type\": \"worker\", \"index\": 0}}",
            "%s", error.text);
    else if (!json_is_object(top))
        mf_cluster_mistake(c, place, "write {\"cluster\": {\"worker\": [\"host:port\"]}}",
                           "expected a map, not %s", kind(top));
    else
        decode_top(c, top, place);
    json_decref(top);
}

bool mf_tf_config_speaks(const char *text, size_t len)
{
    json_error_t error;
    const char *key;
    json_t *top = len > MF_CLUSTER_MAX_BYTES ? NULL : tf_config_json_load(text, len, &error), *jobs;
    bool speaks = true;

    if (json_is_object(top)) {
        jobs = jobs_of(top, &key);
        speaks = jobs && (!json_is_object(jobs) || json_object_size(jobs) > 0);
    }
    json_decref(top);
    return speaks;
}
