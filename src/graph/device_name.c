/* SPDX-License-Identifier: Apache-2.0 */
/* device_name.c - parses, prints and merges TensorFlow device names. Accepts the syntax of both of
 * TensorFlow's parsers: that of its clients, which refuses "/task:*", and that of its servers,
 * which refuses "job:worker". */
#include "graph/device_name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* One part of a name, "task:1", and the complete name. */
typedef struct device_name_part {
    const char *name;
    const char *text;
    size_t len;
} device_name_part;

static mf_status no_part(const device_name_part *p, const char *why)
{
    return MF_FAIL(MF_INVALID_ARGUMENT,
                   "device '%s': '%.*s' %s; expected a name like "
                   "/job:worker/replica:0/task:1/device:CPU:0, in which each part is optional",
                   p->name, (int)p->len, p->text, why);
}

static bool is_any(const char *s, size_t len)
{
    return len == 1 && *s == '*';
}

static mf_status device_name_read_number(const device_name_part *p, const char *s, size_t len,
                                         int *out)
{
    int64_t value = 0;

    *out = -1;
    if (is_any(s, len))
        return MF_OK;
    if (!len)
        return no_part(p, "lacks a number");
    for (size_t i = 0; i < len; i++) {
        if (!isdigit((unsigned char)s[i]))
            return no_part(p, "needs a number, 0 or more, or '*'");
        value = value * 10 + (s[i] - '0');
        if (value > INT32_MAX)
            return no_part(p, "has too large a number");
    }
    *out = (int)value;
    return MF_OK;
}

static mf_status device_name_read_word(const device_name_part *p, const char *s, size_t len,
                                       char *out, size_t room)
{
    *out = 0;
    if (is_any(s, len))
        return MF_OK;
    if (!len)
        return no_part(p, "lacks a name");
    if (len >= room)
        return no_part(p, "has too long a name");
    for (size_t i = 0; i < len; i++)
        if (!isgraph((unsigned char)s[i]))
            return no_part(p, "has a character that is not allowed in names");
    memcpy(out, s, len);
    out[len] = 0;
    return MF_OK;
}

/* "CPU", "CPU:0", "CPU:*" */
static mf_status read_device(const device_name_part *p, const char *s, size_t len,
                             mf_device_name *out)
{
    const char *colon = memchr(s, ':', len);
    const size_t word = colon ? (size_t)(colon - s) : len;

    if (out->type[0])
        return no_part(p, "is a second device");
    MF_TRY(device_name_read_word(p, s, word, out->type, sizeof out->type));
    for (char *c = out->type; *c; c++)
        *c = (char)toupper((unsigned char)*c);
    return colon ? device_name_read_number(p, colon + 1, len - word - 1, &out->index) : MF_OK;
}

/* The legacy syntax has these. */
static bool is_old_device(const char *s, size_t len)
{
    static const char *const types[] = { "cpu", "gpu", "tpu" };

    for (int i = 0; i < MF_COUNT(types); i++)
        if (strlen(types[i]) == len && strncasecmp(s, types[i], len) == 0)
            return true;
    return false;
}

static mf_status device_name_read_part(const device_name_part *p, mf_device_name *out)
{
    const char *colon = memchr(p->text, ':', p->len);
    const size_t key = colon ? (size_t)(colon - p->text) : p->len;
    const char *value = colon ? colon + 1 : p->text + p->len;
    const size_t len = p->len - (size_t)(value - p->text);

#define IS(word) (key == sizeof(word) - 1 && memcmp(p->text, word, key) == 0)
    if (IS("job"))
        return device_name_read_word(p, value, len, out->job, sizeof out->job);
    if (IS("replica"))
        return device_name_read_number(p, value, len, &out->replica);
    if (IS("task"))
        return device_name_read_number(p, value, len, &out->task);
    if (IS("device"))
        return read_device(p, value, len, out);
#undef IS
    if (is_old_device(p->text, key))
        return read_device(p, p->text, p->len, out);
    return no_part(p, "is not a part of a device name");
}

mf_status mf_device_name_parse(const char *text, mf_device_name *out)
{
    device_name_part p = { .name = text };

    *out = MF_DEVICE_ANY;
    for (p.text = text;; p.text += p.len + 1) {
        p.len = strcspn(p.text, "/");
        if (p.len)
            MF_TRY(device_name_read_part(&p, out));
        if (!p.text[p.len])
            return MF_OK;
    }
}

void mf_device_name_fill(mf_device_name *name, const mf_device_name *outer)
{
    if (!name->job[0])
        memcpy(name->job, outer->job, sizeof name->job);
    if (!name->type[0])
        memcpy(name->type, outer->type, sizeof name->type);
    if (name->replica < 0)
        name->replica = outer->replica;
    if (name->task < 0)
        name->task = outer->task;
    if (name->index < 0)
        name->index = outer->index;
}

bool mf_device_name_is(const mf_device_name *name, const mf_device_name *pattern)
{
    return (!pattern->job[0] || strcmp(pattern->job, name->job) == 0) &&
           (!pattern->type[0] || strcmp(pattern->type, name->type) == 0) &&
           (pattern->replica < 0 || pattern->replica == name->replica) &&
           (pattern->task < 0 || pattern->task == name->task) &&
           (pattern->index < 0 || pattern->index == name->index);
}

bool mf_device_name_agrees(const mf_device_name *a, const mf_device_name *b)
{
    mf_device_name both = *a;

    mf_device_name_fill(&both, b);
    return mf_device_name_is(&both, b);
}

bool mf_device_name_is_full(const mf_device_name *name)
{
    return name->job[0] && name->type[0] && name->replica >= 0 && name->task >= 0 &&
           name->index >= 0;
}

const char *mf_device_name_print(const mf_device_name *name, char out[MF_DEVICE_NAME_MAX])
{
    char *end = out;

    *end = 0;
    if (name->job[0])
        end += sprintf(end, "/job:%s", name->job);
    if (name->replica >= 0)
        end += sprintf(end, "/replica:%d", name->replica);
    if (name->task >= 0)
        end += sprintf(end, "/task:%d", name->task);
    if (name->type[0] || name->index >= 0)
        end += sprintf(end, "/device:%s:", name->type[0] ? name->type : "*");
    if (name->index >= 0)
        sprintf(end, "%d", name->index);
    else if (name->type[0])
        sprintf(end, "*");
    return out;
}
