/* SPDX-License-Identifier: Apache-2.0 */
/* source_language.c - "synthetic-language": sentences of a small grammar, for predicting the next
 * word. Verbs agree with their subject, even across a relative clause:
 *
 *     the dogs that the cat sees run .        a bird sees the old houses . */
#include "data/generated.h"

enum { LENGTH = 64 };

/* clang-format off */
#define WORDS(X)                                                                                   \
    X(END, ".") X(THE, "the") X(A, "a") X(THAT, "that") X(AND, "and")                              \
    X(OLD, "old") X(SMALL, "small") X(RED, "red") X(HAPPY, "happy")                                \
    X(DOG, "dog") X(CAT, "cat") X(BIRD, "bird") X(CHILD, "child")                                  \
    X(DOGS, "dogs") X(CATS, "cats") X(BIRDS, "birds") X(CHILDREN, "children")                      \
    X(HOUSE, "house") X(TREE, "tree") X(HOUSES, "houses") X(TREES, "trees")                        \
    X(SEES, "sees") X(LIKES, "likes") X(FOLLOWS, "follows")                                        \
    X(SEE, "see") X(LIKE, "like") X(FOLLOW, "follow")                                              \
    X(RUNS, "runs") X(SLEEPS, "sleeps") X(SINGS, "sings")                                          \
    X(RUN, "run") X(SLEEP, "sleep") X(SING, "sing")
/* clang-format on */
#define NUMBER(id, word) id,
#define NAME(id, word) word,

enum { WORDS(NUMBER) VOCABULARY };
static const char *const vocabulary[] = { WORDS(NAME) };

typedef struct source_language_text {
    int32_t words[LENGTH + 1];
    int n;
} source_language_text;

static void source_language_say(source_language_text *t, int word)
{
    if (t->n <= LENGTH)
        t->words[t->n++] = word;
}

/* A noun phrase; returns true if it is plural. */
static bool noun_phrase(mf_draws *d, source_language_text *t, bool alive, int depth);

static void verb(mf_draws *d, source_language_text *t, bool plural, int depth)
{
    if (mf_draws_below(d, 2) && depth < 2) {
        source_language_say(t, (plural ? SEE : SEES) + mf_draws_below(d, 3));
        (void)noun_phrase(d, t, false, depth + 1);
    } else {
        source_language_say(t, (plural ? RUN : RUNS) + mf_draws_below(d, 3));
    }
}

/* "that the cat sees": the subject of the clause has a number of its own. */
static void source_language_relative(mf_draws *d, source_language_text *t)
{
    const bool plural = mf_draws_below(d, 2);

    source_language_say(t, THAT);
    source_language_say(t, THE);
    source_language_say(t, (plural ? DOGS : DOG) + mf_draws_below(d, 4));
    source_language_say(t, (plural ? SEE : SEES) + mf_draws_below(d, 3));
}

static bool noun_phrase(mf_draws *d, source_language_text *t, bool alive, int depth)
{
    const bool plural = mf_draws_below(d, 2), thing = !alive && mf_draws_below(d, 3) == 0;

    source_language_say(t, plural || mf_draws_below(d, 2) ? THE : A);
    if (mf_draws_below(d, 3) == 0)
        source_language_say(t, OLD + mf_draws_below(d, 4));
    if (thing)
        source_language_say(t, (plural ? HOUSES : HOUSE) + mf_draws_below(d, 2));
    else
        source_language_say(t, (plural ? DOGS : DOG) + mf_draws_below(d, 4));
    if (depth == 0 && mf_draws_below(d, 3) == 0)
        source_language_relative(d, t);
    return plural;
}

static void make_language(const mf_generated *g, mf_draws *d, void *const *columns)
{
    source_language_text t = { .n = 0 };

    (void)g;
    while (t.n <= LENGTH) {
        const bool plural = noun_phrase(d, &t, true, 0);

        verb(d, &t, plural, 0);
        if (mf_draws_below(d, 5) == 0) {
            source_language_say(&t, AND);
            verb(d, &t, plural, 1);
        }
        source_language_say(&t, END);
    }
    mf_generated_put(columns[0], t.words, LENGTH * sizeof *t.words);
    mf_generated_put(columns[1], t.words + 1, LENGTH * sizeof *t.words);
}

static mf_status language_open(const char *data, const mf_options *o, mf_dataset **out)
{
    mf_generated *g;
    mf_status st;

    (void)data;
    MF_TRY(mf_generated_new(o, 20000, 2, make_language, &g));
    MF_TRY_TO(fail, mf_dataset_set_column(&g->base, 0, "tokens", MF_DTYPE_I32, &MF_SHAPE(LENGTH)));
    MF_TRY_TO(fail, mf_dataset_set_column(&g->base, 1, "label", MF_DTYPE_I32, &MF_SHAPE(LENGTH)));
    MF_TRY_TO(fail, mf_dataset_set_classes(&g->base, vocabulary, VOCABULARY));
    *out = &g->base;
    return MF_OK;
fail:
    mf_dataset_unref(&g->base);
    return st;
}

const mf_source mf_source_language = {
    .name = "synthetic-language",
    .summary = "sentences of a small grammar; the label is the next word",
    .settings = "{" MF_GENERATED_SETTINGS "}",
    .open = language_open,
    .is_name = true,
};
