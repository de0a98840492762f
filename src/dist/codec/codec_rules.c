/* SPDX-License-Identifier: Apache-2.0 */
/* codec_rules.c - rules that choose the codec of each weight's gradient. */
#include "base/mem.h"
#include "dist/codec/codec.h"
#include "tensor/reduction_tree.h"

#include <ctype.h>
#include <fnmatch.h>
#include <string.h>

typedef struct rule {
    const char *pattern; /* of names */
    mf_codec codec;
} rule;

struct mf_codecs {
    mf_arena *arena;
    rule *rules;
    int n;
    int64_t grain;
    bool closed; /* the last rule has no pattern */
};

/* ---- parsing ---- */

static const char *codec_rules_trimmed(mf_arena *arena, const char *text, size_t n)
{
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    while (n > 0 && isspace((unsigned char)*text))
        text++, n--;
    return mf_arena_strndup(arena, text, n);
}

static mf_status read_grain(mf_codecs *c, const char *text)
{
    mf_options o;

    MF_TRY(mf_options_parse("codec", "{grain:int>=1}", text, c->arena, &o));
    c->grain = mf_options_int(&o, "grain");
    if ((c->grain & (c->grain - 1)) != 0 || c->grain > MF_REDUCTION_TREE_LEAVES)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "codec: grain=%lld: a grain is a branch of the tree of shards, so it has "
                       "1, 2, 4, ... %d of them",
                       (long long)c->grain, MF_REDUCTION_TREE_LEAVES);
    return MF_OK;
}

static mf_status read_rule(mf_codecs *c, const char *text)
{
    const char *colon = strchr(text, ':');
    rule *r = &c->rules[c->n];

    if (c->closed)
        return MF_FAIL(MF_INVALID_ARGUMENT,
                       "codec: '%.60s' is never used, as the rule before it applies to all "
                       "names; put rules with a pattern first",
                       text);
    r->pattern = colon ? codec_rules_trimmed(c->arena, text, (size_t)(colon - text)) : "*";
    if (!r->pattern)
        return MF_NOMEM("codecs");
    if (*r->pattern == '\0')
        return MF_FAIL(MF_INVALID_ARGUMENT, "codec: there is no pattern before ':' in '%.60s'",
                       text);
    MF_TRY(
        mf_codec_parse(colon ? colon + 1 + strspn(colon + 1, " \t") : text, c->arena, &r->codec));
    c->closed = !colon;
    c->n++;
    return MF_OK;
}

static mf_status read_rules(mf_codecs *c, const char *text)
{
    int most = 1;

    for (const char *p = text; *p; p++)
        most += *p == ';';
    c->rules = MF_ARENA_ARRAY(c->arena, rule, most);
    if (!c->rules)
        return MF_NOMEM("codecs");
    for (const char *p = text;;) {
        const size_t n = strcspn(p, ";");
        const char *one = codec_rules_trimmed(c->arena, p, n);

        if (!one)
            return MF_NOMEM("codecs");
        if (strncmp(one, "grain=", strlen("grain=")) == 0)
            MF_TRY(read_grain(c, one));
        else if (*one)
            MF_TRY(read_rule(c, one));
        if (p[n] == '\0')
            break;
        p += n + 1;
    }
    if (c->n == 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "codec: '%.60s' names none; fp16 is one", text);
    return MF_OK;
}

mf_status mf_codecs_parse(const char *text, mf_codecs **out)
{
    mf_arena *arena = mf_arena_new();
    mf_codecs *c = arena ? MF_ARENA_NEW(arena, mf_codecs) : NULL;
    mf_status st;

    *out = NULL;
    if (!c) {
        mf_arena_free(arena);
        return MF_NOMEM("codecs");
    }
    c->arena = arena;
    c->grain = 1;
    st = read_rules(c, text);
    if (st == MF_OK)
        *out = c;
    else
        mf_arena_free(arena);
    return st;
}

void mf_codecs_free(mf_codecs *c)
{
    if (c)
        mf_arena_free(c->arena); /* which holds *c */
}

void mf_codecs_text(const mf_codecs *c, mf_buf *out)
{
    if (c->grain > 1)
        mf_buf_printf(out, "grain=%lld; ", (long long)c->grain);
    for (int i = 0; i < c->n; i++) {
        mf_buf_str(out, i > 0 ? "; " : "");
        if (i < c->n - 1 || !c->closed)
            mf_buf_printf(out, "%s: ", c->rules[i].pattern);
        mf_codec_text(&c->rules[i].codec, out);
    }
}

/* ---- using ---- */

int64_t mf_codecs_grain(const mf_codecs *c)
{
    return c->grain;
}

const mf_codec *mf_codecs_find(const mf_codecs *c, const char *name, mf_dtype dtype,
                               const mf_codec_item *item)
{
    if (*name == '\0' || dtype != MF_DTYPE_F32 || item->count < MF_CODEC_LEAST)
        return NULL;
    for (int i = 0; i < c->n; i++) {
        const mf_codec *codec = &c->rules[i].codec;

        if (fnmatch(c->rules[i].pattern, name, 0) != 0)
            continue;
        if (!codec->kind->bytes && !codec->kind->rounds)
            return NULL;
        return codec->kind->suits && !codec->kind->suits(codec, item) ? NULL : codec;
    }
    return NULL;
}

const mf_codec *mf_codecs_with_memory(const mf_codecs *c)
{
    for (int i = 0; i < c->n; i++) {
        if (c->rules[i].codec.kind->memory)
            return &c->rules[i].codec;
    }
    return NULL;
}
