/* SPDX-License-Identifier: Apache-2.0 */
/* view.c - views as JSON, the form that the store holds:
 *
 *     {"epoch": 3, "members": [{"name": "worker 0", "address": "127.0.0.1:2222", "id": "..."}]}
 *
 * A task's own entry is a view with one member and the length of its lease, "lease_ms": 3000. */
#include "base/buf.h"
#include "base/mem.h"
#include "cluster/membership/membership.h"

#include <jansson.h>
#include <string.h>

enum { MOST = 4096 }; /* members */

static const int64_t LONGEST_MS = 864000000; /* ten days: sums do not overflow */

static mf_status view_read_text(const json_t *member, const char *key, char *out, size_t room)
{
    const char *text = json_string_value(json_object_get(member, key));

    if (!text || text[0] == '\0' || strlen(text) >= room)
        return MF_FAIL(MF_DATA_LOSS, "a member of a view has no '%s', or a value that is too long",
                       key);
    memcpy(out, text, strlen(text) + 1);
    return MF_OK;
}

static mf_status read_member(const json_t *from, mf_member *out)
{
    const int64_t lease_ms = json_integer_value(json_object_get(from, "lease_ms"));

    MF_TRY(view_read_text(from, "name", out->name, sizeof out->name));
    MF_TRY(view_read_text(from, "address", out->address, sizeof out->address));
    if (lease_ms < 0 || lease_ms > LONGEST_MS)
        return MF_FAIL(MF_DATA_LOSS, "'%s' has a lease of %lld ms", out->name, (long long)lease_ms);
    out->lease_ns = lease_ms * 1000000;
    return view_read_text(from, "id", out->id, sizeof out->id);
}

static mf_status read_view(const json_t *root, mf_view *out)
{
    const json_t *epoch = json_object_get(root, "epoch");
    const json_t *members = json_object_get(root, "members");
    const size_t n = json_array_size(members);

    if (!json_is_integer(epoch) || json_integer_value(epoch) < 1 ||
        json_integer_value(epoch) > UINT32_MAX || n < 1 || n > MOST)
        return MF_FAIL(MF_DATA_LOSS, "the store's view is invalid");
    out->members = mf_calloc((int64_t)n, sizeof *out->members);
    if (!out->members)
        return MF_NOMEM("a view");
    out->epoch = json_integer_value(epoch);
    for (size_t i = 0; i < n; i++)
        MF_TRY(read_member(json_array_get(members, i), &out->members[out->n++]));
    return MF_OK;
}

mf_status mf_view_parse(const char *text, size_t size, mf_view *out)
{
    json_error_t why;
    json_t *root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    mf_status st;

    *out = (mf_view){ .self = -1 };
    if (!root)
        return MF_FAIL(MF_DATA_LOSS, "the store's view is invalid: %s", why.text);
    st = read_view(root, out);
    json_decref(root);
    if (st != MF_OK)
        mf_view_deinit(out);
    return st;
}

static void view_put_text(mf_buf *out, const char *before, const char *text)
{
    mf_buf_str(out, before);
    mf_buf_json(out, text, strlen(text));
}

mf_status mf_view_print(const mf_view *v, mf_buf *out)
{
    mf_buf_printf(out, "{\"epoch\":%lld,\"members\":[", (long long)v->epoch);
    for (int i = 0; i < v->n; i++) {
        view_put_text(out, i > 0 ? ",{\"name\":" : "{\"name\":", v->members[i].name);
        view_put_text(out, ",\"address\":", v->members[i].address);
        view_put_text(out, ",\"id\":", v->members[i].id);
        if (v->members[i].lease_ns > 0)
            mf_buf_printf(out, ",\"lease_ms\":%lld", (long long)(v->members[i].lease_ns / 1000000));
        mf_buf_str(out, "}");
    }
    mf_buf_str(out, "]}");
    return mf_buf_finish(out);
}

void mf_view_deinit(mf_view *v)
{
    mf_free(v->members);
    *v = (mf_view){ .self = -1 };
}
