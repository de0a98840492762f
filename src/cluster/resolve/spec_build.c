/* SPDX-License-Identifier: Apache-2.0 */
/* spec_build.c - helpers that fill a description, and the rules that hold for every one. */
#include "base/did_you_mean.h"
#include "base/map.h"
#include "cluster/resolve/address.h"
#include "cluster/resolve/resolver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { MAX_MISTAKES = 50 }; /* a list with a wrong column has an error for each row */

mf_cluster *mf_cluster_new(void)
{
    mf_cluster *c = mf_calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->arena = mf_arena_new();
    c->convention = "none";
    c->host = "";
    c->self = c->rank = c->local_rank = c->local_size = -1;
    if (c->arena)
        return c;
    mf_free(c);
    return NULL;
}

/* ---- words ---- */

static const char *spec_build_text_of(mf_cluster *c, const char *fmt, va_list args)
{
    char small[512], *text;
    va_list again;
    int n;

    va_copy(again, args);
    n = vsnprintf(small, sizeof small, fmt, args);
    text = n < 0 ? NULL : mf_arena_alloc(c->arena, n + 1, 1);
    if (text)
        (void)vsnprintf(text, (size_t)n + 1, fmt, again);
    else
        c->no_memory = true;
    va_end(again);
    return text ? text : "";
}

const char *mf_cluster_text(mf_cluster *c, const char *fmt, ...)
{
    const char *text;
    va_list args;

    va_start(args, fmt);
    text = spec_build_text_of(c, fmt, args);
    va_end(args);
    return text;
}

/* Room for one more element of *array. */
static bool spec_build_grow(mf_cluster *c, void *array, int64_t *cap, int n, size_t size)
{
    if (!c->no_memory && mf_grow(array, cap, n + 1, size) != MF_OK)
        c->no_memory = true;
    return !c->no_memory;
}

void mf_cluster_fact(mf_cluster *c, const char *what, const char *from, const char *fmt, ...)
{
    const char *value;
    va_list args;

    va_start(args, fmt);
    value = spec_build_text_of(c, fmt, args);
    va_end(args);
    if (spec_build_grow(c, &c->facts, &c->cap_facts, c->n_facts, sizeof *c->facts))
        c->facts[c->n_facts++] = (mf_fact){ what, value, from };
}

void mf_cluster_note(mf_cluster *c, const char *fmt, ...)
{
    const char *note;
    va_list args;

    va_start(args, fmt);
    note = spec_build_text_of(c, fmt, args);
    va_end(args);
    if (spec_build_grow(c, &c->notes, &c->cap_notes, c->n_notes, sizeof *c->notes))
        c->notes[c->n_notes++] = note;
}

void mf_cluster_mistake(mf_cluster *c, const char *place, const char *fix, const char *fmt, ...)
{
    const char *problem;
    va_list args;

    if (c->n_mistakes >= MAX_MISTAKES)
        return;
    va_start(args, fmt);
    problem = spec_build_text_of(c, fmt, args);
    va_end(args);
    if (spec_build_grow(c, &c->mistakes, &c->cap_mistakes, c->n_mistakes, sizeof *c->mistakes))
        c->mistakes[c->n_mistakes++] = (mf_mistake){ place, problem, fix };
}

/* ---- tasks ---- */

bool mf_cluster_role(mf_cluster *c, const char *name, const char *place, mf_role *out)
{
    mf_did_you_mean closest = mf_did_you_mean_to(name);

    if (mf_role_find(name, out))
        return true;
    for (int i = 0; i < MF_ROLES; i++)
        mf_did_you_mean_try(&closest, mf_role_name((mf_role)i));
    mf_cluster_mistake(c, place,
                       closest.best ? mf_cluster_text(c, "did you mean '%s'?", closest.best)
                                    : "use chief, worker, ps, evaluator or master",
                       "there is no job '%.60s'", name);
    return false;
}

void mf_cluster_add(mf_cluster *c, mf_role role, int64_t index, const char *address,
                    const char *from)
{
    mf_cluster_task t = { .role = role, .index = (int)index, .from = from };
    mf_address parts;
    mf_address_error error;

    if (index < 0 || index >= MF_CLUSTER_MAX_TASKS || c->n_tasks >= MF_CLUSTER_MAX_TASKS) {
        mf_cluster_mistake(c, from, "number tasks from 0 on",
                           "task %lld is beyond the limit of %d tasks", (long long)index,
                           MF_CLUSTER_MAX_TASKS);
        return;
    }
    if (address && !mf_address_parse(address, &parts, &error)) {
        mf_cluster_mistake(c, from, error.fix, "%s", error.problem);
    } else if (address) {
        t.address = mf_cluster_text(c, "%s", address);
        t.host = mf_cluster_text(c, "%s", parts.host);
        t.port = parts.port;
    }
    if (spec_build_grow(c, &c->tasks, &c->cap_tasks, c->n_tasks, sizeof *c->tasks))
        c->tasks[c->n_tasks++] = t;
}

void mf_cluster_own(mf_cluster *c, mf_role role, int64_t index, const char *from)
{
    c->own_known = true;
    c->own_role = role;
    c->own_index = index > INT32_MAX ? INT32_MAX : (int)index;
    c->own_from = from;
}

/* ---- the complete description ---- */

static int by_role_and_index(const void *a, const void *b)
{
    const mf_cluster_task *x = a, *y = b;

    if (x->role != y->role)
        return x->role < y->role ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static void check_doubles(mf_cluster *c)
{
    mf_map seen = { 0 };

    for (int i = 0; i < c->n_tasks; i++) {
        mf_cluster_task *t = &c->tasks[i];
        const mf_cluster_task *other = t->address ? mf_map_find(&seen, t->address) : NULL;

        if (i > 0 && by_role_and_index(&t[-1], t) == 0)
            mf_cluster_mistake(c, t->from, "give every task an index of its own",
                               "task %d of '%s' is given twice, also by %s", t->index,
                               mf_role_name(t->role), t[-1].from);
        else if (other)
            mf_cluster_mistake(c, t->from, "give every task an address of its own",
                               "%s is also the address in %s", t->address, other->from);
        else if (t->address && mf_map_set(&seen, t->address, t) != MF_OK)
            c->no_memory = true;
    }
    mf_map_deinit(&seen);
}

/* The message for a process that is not in the list: how long the list is. */
static void not_listed(mf_cluster *c)
{
    const char *name = mf_role_name(c->own_role);
    const int n = mf_cluster_count(c, c->own_role);

    if (n == 0)
        mf_cluster_mistake(
            c, c->own_from,
            mf_cluster_text(c, "add \"%s\" to the cluster, or name another job", name),
            "the cluster has no job '%s'", name);
    else if (c->sparse)
        mf_cluster_mistake(c, c->own_from, "list this task's own address in the cluster",
                           "the cluster has no task %d of '%s'", c->own_index, name);
    else
        mf_cluster_mistake(c, c->own_from, mf_cluster_text(c, "use 0 to %d", n - 1),
                           "task index %d is out of range: the cluster has %d of '%s'",
                           c->own_index, n, name);
}

static void spec_build_find_self(mf_cluster *c, const mf_cluster_request *request)
{
    const mf_cluster_task *t;

    if (!c->own_known && c->n_tasks == 1 && !request->client)
        mf_cluster_own(c, c->tasks[0].role, c->tasks[0].index, "the only task");
    if (!c->own_known) {
        if (!request->client && c->n_tasks > 0 && c->n_mistakes == 0)
            mf_cluster_mistake(
                c, c->convention,
                "add \"task\": {\"type\": \"worker\", \"index\": 0} to TF_CONFIG, or "
                "give --job_name worker --task_index 0",
                "it does not select which of its %d tasks this process is", c->n_tasks);
        return;
    }
    t = mf_cluster_find(c, c->own_role, c->own_index);
    if (t)
        c->self = (int)(t - c->tasks);
    else
        not_listed(c);
}

static void number_local(mf_cluster *c)
{
    const mf_cluster_task *me = mf_cluster_self(c);

    if (c->local_size >= 0 || !me || !me->host)
        return;
    c->local_rank = c->local_size = 0;
    for (int i = 0; i < c->n_tasks; i++) {
        const mf_cluster_task *t = &c->tasks[i];

        if (t->host && strcasecmp(t->host, me->host) == 0) {
            c->local_rank += i < c->self;
            c->local_size++;
        }
    }
}

static void number_tasks(mf_cluster *c)
{
    c->addresses = c->n_tasks > 0;
    for (int i = 0; i < c->n_tasks; i++) {
        const mf_cluster_task *t = &c->tasks[i];

        c->size += mf_role_trains(t->role);
        if (t->role != MF_ROLE_EVALUATOR || t->address)
            c->addresses = c->addresses && t->address;
        if (i == 0                  ? t->index > 0
            : t->role != t[-1].role ? t->index > 0
                                    : t->index > t[-1].index + 1)
            c->sparse = true;
    }
}

/* Rank 0's address, unless the launcher gave another one; a sparse list may lack it. */
static void find_rendezvous(mf_cluster *c)
{
    const mf_cluster_task *first = mf_cluster_rank(c, 0);

    if (!c->rendezvous && first && c->n_tasks > 1 && mf_cluster_is_chief(c, first))
        c->rendezvous = first->address;
}

static void check_chief(mf_cluster *c)
{
    const mf_cluster_task *second = mf_cluster_find(c, MF_ROLE_CHIEF, 1);

    if (second)
        mf_cluster_mistake(c, second->from, "list the others as workers",
                           "there is more than one chief");
}

static void name_host(mf_cluster *c, const mf_cluster_request *request)
{
    char name[MF_HOST_MAX] = "";

    if (!request->host && gethostname(name, sizeof name - 1) != 0)
        name[0] = '\0';
    c->host = mf_cluster_text(c, "%s", request->host ? request->host : name);
}

void mf_cluster_finish(mf_cluster *c, const mf_cluster_request *request)
{
    name_host(c, request);
    /* An evaluator needs no place in the cluster it watches, as in TensorFlow. */
    if (c->own_known && c->own_role == MF_ROLE_EVALUATOR &&
        mf_cluster_count(c, MF_ROLE_EVALUATOR) == 0 && c->own_index == 0)
        mf_cluster_add(c, MF_ROLE_EVALUATOR, 0, NULL, c->own_from);
    if (c->n_tasks > 0)
        qsort(c->tasks, (size_t)c->n_tasks, sizeof *c->tasks, by_role_and_index);
    check_doubles(c);
    check_chief(c);
    number_tasks(c);
    spec_build_find_self(c, request);
    if (mf_cluster_self(c) && mf_role_trains(mf_cluster_self(c)->role))
        c->rank = c->self;
    number_local(c);
    find_rendezvous(c);
}
