/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_answer.c - decodes the JSON replies of etcd's gateway. */
#include "plugins/etcd/etcd_answer.h"

#include "base/mem.h"

#include <jansson.h>
#include <nettle/base64.h>
#include <stdlib.h>
#include <string.h>

enum { CODE_MAX = 16 }; /* limit of gRPC status codes */

static mf_status nonsense(const char *what)
{
    return MF_FAIL(MF_DATA_LOSS, "invalid reply of etcd: %s", what);
}

/* ---- fields ---- */

/* A number, which is usually encoded as a string; 0: the field is missing. */
static mf_status get_number(const json_t *o, const char *name, int64_t *out)
{
    const json_t *v = json_object_get(o, name);
    const char *text = json_string_value(v);
    char *end = NULL;

    *out = 0;
    if (!v)
        return MF_OK;
    if (json_is_integer(v))
        *out = json_integer_value(v);
    else if (text && *text >= '0' && *text <= '9')
        *out = strtoll(text, &end, 10);
    else
        return nonsense(name);
    return *out >= 0 && *out < INT64_MAX && (!end || *end == '\0') ? MF_OK : nonsense(name);
}

static mf_status get_list(const json_t *o, const char *name, const json_t **out)
{
    *out = json_object_get(o, name);
    return !*out || json_is_array(*out) ? MF_OK : nonsense(name);
}

static mf_status get_revision(const json_t *root, int64_t *out)
{
    const json_t *header = json_object_get(root, "header");

    return json_is_object(header) ? get_number(header, "revision", out) : nonsense("no header");
}

char *etcd_base64(const char *prefix, const char *bytes, size_t len)
{
    const size_t n = strlen(prefix);
    char *all = mf_calloc((int64_t)(n + len) + 1, 1), *text = NULL;

    if (all) {
        memcpy(all, prefix, n);
        if (len > 0)
            memcpy(all + n, bytes, len);
        text = mf_calloc((int64_t)BASE64_ENCODE_RAW_LENGTH(n + len) + 1, 1);
    }
    if (text)
        base64_encode_raw(text, n + len, (const uint8_t *)all);
    mf_free(all);
    return text;
}

/* Bytes, at most `most`, NUL-terminated. */
static mf_status get_bytes(const json_t *o, const char *name, size_t most, char **out, size_t *len)
{
    const json_t *v = json_object_get(o, name);
    const size_t n = json_string_length(v);
    struct base64_decode_ctx c;

    *out = NULL;
    *len = BASE64_DECODE_LENGTH(n);
    if (v && !json_is_string(v))
        return nonsense(name);
    if (n > BASE64_ENCODE_RAW_LENGTH(most))
        return MF_FAIL(MF_DATA_LOSS,
                       "etcd contains a %s of more than %zu bytes, which is not "
                       "from Meshflow",
                       name, most);
    *out = mf_calloc((int64_t)*len + 1, 1);
    if (!*out)
        return MF_NOMEM("an answer");
    base64_decode_init(&c);
    if (n == 0)
        *len = 0;
    else if (!base64_decode_update(&c, len, (uint8_t *)*out, n, json_string_value(v)) ||
             !base64_decode_final(&c))
        return nonsense("invalid base64");
    (*out)[*len] = '\0';
    return *len <= most ? MF_OK : nonsense(name);
}

/* ---- replies ---- */

/* {"error": "text", "code": 5}, or in a stream {"error": {"message": "text", "grpc_code": 5}}. */
static mf_status etcd_answer_failed(const json_t *root)
{
    const json_t *error = json_object_get(root, "error");
    const bool stream = json_is_object(error);
    const char *text =
        stream ? json_string_value(json_object_get(error, "message")) : json_string_value(error);
    const json_int_t code = stream ? json_integer_value(json_object_get(error, "grpc_code"))
                                   : json_integer_value(json_object_get(root, "code"));

    return MF_FAIL(code > 0 && code <= CODE_MAX ? (mf_status)code : MF_UNAVAILABLE, "etcd: %.300s",
                   text ? text : "an error without a name");
}

/* Owns: the caller calls json_decref(*out). */
static mf_status etcd_answer_load(const etcd_text *t, json_t **out)
{
    json_error_t why;
    mf_status st;

    *out = json_loadb(t->bytes, t->len, JSON_REJECT_DUPLICATES, &why);
    if (!*out && t->http != 200)
        return MF_FAIL(MF_UNAVAILABLE, "it answers with HTTP status %ld: is it etcd 3.4 or later?",
                       t->http);
    if (!*out)
        return nonsense(why.text);
    if (!json_is_object(*out))
        st = nonsense("the reply is not an object");
    else if (json_object_get(*out, "error"))
        st = etcd_answer_failed(*out);
    else if (t->http != 200)
        st = MF_FAIL(MF_UNAVAILABLE, "it answers with HTTP status %ld", t->http);
    else
        return MF_OK;
    json_decref(*out);
    *out = NULL;
    return st;
}

mf_status etcd_check(const etcd_text *t)
{
    json_t *root;

    MF_TRY(etcd_answer_load(t, &root));
    json_decref(root);
    return MF_OK;
}

/* ---- values ---- */

/* *ours false: the key was not written by Meshflow. */
static mf_status etcd_answer_decode_entry(const json_t *kv, const char *prefix, mf_store_entry *out,
                                          bool *ours)
{
    const size_t n = strlen(prefix);
    size_t len;

    *out = (mf_store_entry){ 0 };
    MF_TRY(get_bytes(kv, "key", 4096, &out->key, &len));
    *ours = strlen(out->key) == len && strncmp(out->key, prefix, n) == 0 &&
            mf_store_is_key(out->key + n);
    if (!*ours)
        return MF_OK;
    memmove(out->key, out->key + n, len - n + 1);
    MF_TRY(get_bytes(kv, "value", MF_STORE_VALUE_MAX, &out->value, &out->size));
    MF_TRY(get_number(kv, "mod_revision", &out->version));
    MF_TRY(get_number(kv, "lease", &out->lease));
    return out->version > 0 ? MF_OK : nonsense("mod_revision");
}

static mf_status etcd_answer_decode_entries(const json_t *kvs, const char *prefix,
                                            mf_store_entries *out)
{
    const size_t n = json_array_size(kvs);

    if (n == 0)
        return MF_OK;
    out->entries = mf_calloc((int64_t)n, sizeof *out->entries);
    if (!out->entries)
        return MF_NOMEM("an answer");
    for (size_t i = 0; i < n; i++) {
        mf_store_entry *e = &out->entries[out->n];
        bool ours = false;
        const mf_status st = etcd_answer_decode_entry(json_array_get(kvs, i), prefix, e, &ours);

        if (st != MF_OK || !ours) {
            mf_store_entry_deinit(e);
            MF_TRY(st);
            continue;
        }
        if (out->n > 0 && strcmp(e[-1].key, e->key) >= 0) {
            mf_store_entry_deinit(e);
            return nonsense("keys are not sorted");
        }
        out->n++;
    }
    return MF_OK;
}

mf_status etcd_range_decode(const etcd_text *t, const char *prefix, mf_store_entries *out)
{
    const json_t *kvs = NULL;
    json_t *root;
    mf_status st;

    *out = (mf_store_entries){ 0 };
    MF_TRY(etcd_answer_load(t, &root));
    st = get_revision(root, &out->revision);
    if (st == MF_OK)
        st = get_list(root, "kvs", &kvs);
    if (st == MF_OK)
        st = etcd_answer_decode_entries(kvs, prefix, out);
    json_decref(root);
    if (st != MF_OK)
        mf_store_entries_deinit(out);
    return st;
}

static mf_status etcd_answer_decode_txn(const json_t *root, etcd_txn *out)
{
    const json_t *responses, *first, *kvs;

    MF_TRY(get_revision(root, &out->revision));
    MF_TRY(get_list(root, "responses", &responses));
    out->done = json_is_true(json_object_get(root, "succeeded"));
    first = json_array_get(responses, 0);
    if (out->done)
        return get_number(json_object_get(first, "response_delete_range"), "deleted",
                          &out->deleted);
    MF_TRY(get_list(json_object_get(first, "response_range"), "kvs", &kvs));
    return get_number(json_array_get(kvs, 0), "mod_revision", &out->version);
}

mf_status etcd_txn_decode(const etcd_text *t, etcd_txn *out)
{
    json_t *root;
    mf_status st;

    *out = (etcd_txn){ 0 };
    MF_TRY(etcd_answer_load(t, &root));
    st = etcd_answer_decode_txn(root, out);
    json_decref(root);
    return st;
}

/* ---- leases and watches ---- */

mf_status etcd_lease_decode(const etcd_text *t, int64_t *lease, int64_t *ttl_s)
{
    const json_t *result;
    json_t *root;
    mf_status st;

    MF_TRY(etcd_answer_load(t, &root));
    result = json_object_get(root, "result"); /* in a stream */
    st = get_number(result ? result : root, "ID", lease);
    if (st == MF_OK)
        st = get_number(result ? result : root, "TTL", ttl_s);
    if (st == MF_OK && *lease == 0)
        st = nonsense("a lease without a number");
    json_decref(root);
    return st;
}

mf_status etcd_watch_decode(const etcd_text *t, bool *changed)
{
    const json_t *result, *events = NULL;
    json_t *root;
    mf_status st;

    MF_TRY(etcd_answer_load(t, &root));
    result = json_object_get(root, "result");
    st = json_is_object(result) ? get_list(result, "events", &events) : nonsense("no result");
    /* etcd ends a watch whose revision was compacted. */
    *changed = json_array_size(events) > 0 || json_is_true(json_object_get(result, "canceled"));
    json_decref(root);
    return st;
}
