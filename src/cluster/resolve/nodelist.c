/* SPDX-License-Identifier: Apache-2.0 */
/* nodelist.c - Slurm's short forms:
 *
 *     n[1-3,07],login       n1 n2 n3 n07 login; several brackets make all combinations
 *     3(x2),2               3 3 2
 */
#include "cluster/resolve/address.h"
#include "cluster/resolve/resolver.h"

#include <stdio.h>
#include <string.h>

static bool nodelist_wrong(mf_cluster *c, const char *place, const char *at, const char *problem)
{
    mf_cluster_mistake(c, place, "write it as Slurm does: n[1-3,7],login", "%s, at '%.40s'",
                       problem, at);
    return false;
}

static bool nodelist_add_host(mf_cluster *c, const char *name, const char *place, mf_hosts *out)
{
    if (!mf_host_is_name(name, strlen(name)))
        return nodelist_wrong(c, place, name, "that is no host's name");
    if (out->n >= MF_CLUSTER_MAX_TASKS)
        return nodelist_wrong(c, place, name, "there are too many hosts");
    if (mf_grow(&out->hosts, &out->cap, out->n + 1, sizeof *out->hosts) != MF_OK) {
        c->no_memory = true;
        return false;
    }
    out->hosts[out->n++] = (mf_host){ mf_cluster_text(c, "%s", name), 1 };
    return true;
}

/* The end of one element: the next comma outside of brackets. NULL: brackets do not match. */
static const char *element_end(const char *text)
{
    bool inside = false;

    for (; *text && (inside || *text != ','); text++) {
        if ((*text == '[' && inside) || (*text == ']' && !inside))
            return NULL;
        if (*text == '[' || *text == ']')
            inside = *text == '[';
    }
    return inside ? NULL : text;
}

/* One range of a bracket, "7" or "01-12"; *end is after it. The width is that of the first number.
 */
static bool nodelist_read_range(const char *at, int64_t *low, int64_t *high, int *width,
                                const char **end)
{
    size_t n = strspn(at, "0123456789");

    if (!mf_number_parse(at, n, 0, INT32_MAX, low))
        return false;
    *width = (int)n;
    *high = *low;
    at += n;
    if (*at == '-') {
        n = strspn(++at, "0123456789");
        if (!mf_number_parse(at, n, *low, INT32_MAX, high))
            return false;
        at += n;
    }
    *end = at;
    return *at == ',' || *at == ']';
}

/* `head` is the text before; `text` to `end` is the rest of the element. */
static bool nodelist_expand(mf_cluster *c, const char *head, const char *text, const char *end,
                            const char *place, mf_hosts *out)
{
    const char *open = memchr(text, '[', (size_t)(end - text));
    char name[MF_HOST_MAX];
    int64_t low, high;
    int width;

    if (!open) {
        if (snprintf(name, sizeof name, "%s%.*s", head, (int)(end - text), text) >= MF_HOST_MAX)
            return nodelist_wrong(c, place, head, "the name is too long");
        return nodelist_add_host(c, name, place, out);
    }
    for (const char *at = open + 1;; at++) {
        const char *next;

        if (!nodelist_read_range(at, &low, &high, &width, &next))
            return nodelist_wrong(c, place, at, "expected numbers, such as 1-3,7");
        if (high - low >= MF_CLUSTER_MAX_TASKS)
            return nodelist_wrong(c, place, at, "there are too many hosts");
        for (int64_t i = low; i <= high; i++) {
            if (snprintf(name, sizeof name, "%s%.*s%0*lld", head, (int)(open - text), text, width,
                         (long long)i) >= MF_HOST_MAX)
                return nodelist_wrong(c, place, head, "the name is too long");
            if (!nodelist_expand(c, name, strchr(next, ']') + 1, end, place, out))
                return false;
        }
        at = next;
        if (*at == ']')
            return true;
    }
}

bool mf_nodelist_decode(mf_cluster *c, const char *text, const char *place, mf_hosts *out)
{
    for (;;) {
        const char *end = element_end(text);

        if (!end)
            return nodelist_wrong(c, place, text, "its brackets do not match");
        if (!nodelist_expand(c, "", text, end, place, out))
            return false;
        if (!*end)
            return true;
        text = end + 1;
    }
}

bool mf_tasks_per_node_decode(mf_cluster *c, const char *text, const char *place, mf_hosts *hosts)
{
    static const char fix[] = "write it as Slurm does: 3(x2),2";
    int64_t node = 0;

    for (;;) {
        size_t n = strspn(text, "0123456789");
        const char *at = text + n;
        int64_t tasks, times = 1;
        bool good = mf_number_parse(text, n, 0, MF_CLUSTER_MAX_TASKS, &tasks);

        if (good && strncmp(at, "(x", 2) == 0) {
            n = strspn(at + 2, "0123456789");
            good = mf_number_parse(at + 2, n, 1, MF_CLUSTER_MAX_TASKS, &times) && at[2 + n] == ')';
            at += good ? n + 3 : 0;
        }
        if (!good || (*at && *at != ',')) {
            mf_cluster_mistake(c, place, fix, "expected counts of tasks, at '%.40s'", text);
            return false;
        }
        for (; times > 0 && node < hosts->n; times--)
            hosts->hosts[node++].slots = (int)tasks;
        if (times > 0 || (!*at && node < hosts->n)) {
            mf_cluster_note(c, "%s '%.40s' does not fit the %lld nodes listed: not used", place,
                            text, (long long)hosts->n);
            return false;
        }
        if (!*at)
            return true;
        text = at + 1;
    }
}
