/* SPDX-License-Identifier: Apache-2.0 */
/* source_text.c - "synthetic-text": short opinions as bytes; the label is negative, neutral or
 * positive. "not" negates a clause, the clause after "but" decides, "it is false that" negates the
 * whole sentence. */
#include "data/generated.h"

#include <stdio.h>
#include <string.h>

enum { LENGTH = 64 };

#define PICK(d, list) ((list)[mf_draws_below((d), MF_COUNT(list))])

static const char *const nouns[] = { "food",  "staff", "room", "film", "music", "view",
                                     "story", "bed",   "soup", "band", "hotel", "price" };
static const char *const good[] = { "good", "nice", "great", "lovely", "fine", "superb", "fun" };
static const char *const bad[] = { "bad", "awful", "poor", "dull", "weak", "boring", "sad" };
static const char *const plain[] = { "green", "large", "new", "round", "quiet", "german", "small" };
static const char *const degrees[] = { "", "very ", "quite ", "so ", "really " };

/* One clause; returns -1, 0 or 1. */
static int clause(mf_draws *d, const char *degree, char *to, size_t room)
{
    const int kind = mf_draws_below(d, 5), negated = mf_draws_below(d, 2);
    const int opinion = kind == 0 ? 0 : kind % 2 ? 1 : -1;
    const char *word = opinion == 0 ? PICK(d, plain) : opinion > 0 ? PICK(d, good) : PICK(d, bad);
    const char *not_word = mf_draws_below(d, 2) ? "not " : "never ";

    (void)snprintf(to, room, "the %s was %s%s%s", PICK(d, nouns), negated ? not_word : "", degree,
                   word);
    return negated ? -opinion : opinion;
}

static void source_text_make_text(const mf_generated *g, mf_draws *d, void *const *columns)
{
    const int form = mf_draws_below(d, 6);
    const bool two = form < 3;
    char first[48], second[48], text[2 * LENGTH];
    int32_t tokens[LENGTH] = { 0 }, label;
    int opinion = clause(d, two ? "" : PICK(d, degrees), first, sizeof first);

    (void)g;
    if (two) { /* short clauses, so that both fit */
        opinion = clause(d, "", second, sizeof second);
        (void)snprintf(text, sizeof text, "%s but %s", first, second);
    } else if (form == 3) {
        (void)snprintf(text, sizeof text, "it is false that %s", first);
        opinion = -opinion;
    } else {
        (void)snprintf(text, sizeof text, "%s%s", form == 4 ? "" : "i think ", first);
    }
    for (int i = 0; i < LENGTH && text[i]; i++)
        tokens[i] = (unsigned char)text[i];
    label = opinion < 0 ? 0 : opinion == 0 ? 1 : 2;
    mf_generated_put(columns[0], tokens, sizeof tokens);
    mf_generated_put(columns[1], &label, sizeof label);
}

static mf_status text_open(const char *data, const mf_options *o, mf_dataset **out)
{
    static const char *const names[] = { "negative", "neutral", "positive" };
    mf_generated *g;
    mf_status st;

    (void)data;
    MF_TRY(mf_generated_new(o, 50000, 2, source_text_make_text, &g));
    MF_TRY_TO(fail, mf_dataset_set_column(&g->base, 0, "tokens", MF_DTYPE_I32, &MF_SHAPE(LENGTH)));
    MF_TRY_TO(fail, mf_dataset_set_column(&g->base, 1, "label", MF_DTYPE_I32, &MF_SCALAR));
    MF_TRY_TO(fail, mf_dataset_set_classes(&g->base, names, 3));
    *out = &g->base;
    return MF_OK;
fail:
    mf_dataset_unref(&g->base);
    return st;
}

const mf_source mf_source_text = {
    .name = "synthetic-text",
    .summary = "opinions with negations, as bytes: negative, neutral or positive",
    .settings = "{" MF_GENERATED_SETTINGS "}",
    .open = text_open,
    .is_name = true,
};
