/* SPDX-License-Identifier: Apache-2.0 */
/* language.c - how well the next word of "synthetic-language" can be predicted. A predictor that
 * has the grammar is the upper bound for a model, which docs/guides/data.md states. */
#include "mf_test.h"

#include <meshflow/meshflow.h>

#include <string.h>

enum { LENGTH = 64 };

/* The state after the words so far. */
typedef enum place {
    PHRASE, /* a determiner follows */
    DETERMINED,
    DESCRIBED,
    SUBJECT,
    CLAUSE, /* behind "that" */
    CLAUSE_NOUN,
    CLAUSE_VERB,
    VERB, /* of the sentence */
    DONE, /* nothing is open: "and" or the end */
    AND,
} place;

typedef struct reader {
    place at;
    bool object; /* the current noun phrase is an object */
    bool definite; /* "the" began the noun phrase */
    bool plural; /* the subject of the sentence */
    bool clause_plural; /* and of the clause */
} reader;

static bool is_one_of(const char *word, const char *words)
{
    const size_t n = strlen(word);

    for (const char *at = strstr(words, word); at; at = strstr(at + 1, word)) {
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    }
    return false;
}

static bool is_plural(const char *noun)
{
    return is_one_of(noun, "dogs cats birds children houses trees");
}

/* The most likely next word; if several are equally likely, one of them. */
static const char *guess(const reader *r)
{
    switch (r->at) {
    case PHRASE:
        return "the"; /* 3 of 4 */
    case DETERMINED:
        return !r->definite ? "dog" : r->object ? "old" : "dogs"; /* 1/6 or 1/9, 1/12, 1/9 */
    case DESCRIBED:
        return r->definite ? "dogs" : "dog";
    case SUBJECT:
        return "that"; /* 1 of 3; each verb 1 of 9 */
    case CLAUSE:
        return "the";
    case CLAUSE_NOUN:
        return "dog";
    case CLAUSE_VERB:
        return r->clause_plural ? "see" : "sees"; /* 1 of 3 */
    case VERB:
    case AND:
        return r->plural ? "run" : "runs"; /* 1 of 6 */
    case DONE:
        return "."; /* 4 of 5, and always behind "and" */
    }
    return "";
}

static void end_phrase(reader *r, const char *noun)
{
    if (!r->object)
        r->plural = is_plural(noun);
    r->at = r->object ? DONE : SUBJECT;
}

static void read_verb(reader *r, const char *verb)
{
    r->object = is_one_of(verb, "see sees like likes follow follows");
    r->at = r->object ? PHRASE : DONE;
}

static void read_word(reader *r, const char *word)
{
    if (strcmp(word, ".") == 0) {
        *r = (reader){ .at = PHRASE };
        return;
    }
    switch (r->at) {
    case PHRASE:
        r->definite = strcmp(word, "the") == 0;
        r->at = DETERMINED;
        break;
    case DETERMINED:
    case DESCRIBED:
        if (is_one_of(word, "old small red happy"))
            r->at = DESCRIBED;
        else
            end_phrase(r, word);
        break;
    case SUBJECT:
        if (strcmp(word, "that") == 0)
            r->at = CLAUSE;
        else
            read_verb(r, word);
        break;
    case CLAUSE:
        r->at = CLAUSE_NOUN;
        break;
    case CLAUSE_NOUN:
        r->clause_plural = is_plural(word);
        r->at = CLAUSE_VERB;
        break;
    case CLAUSE_VERB:
        r->at = VERB;
        break;
    case VERB:
    case AND:
        read_verb(r, word);
        break;
    case DONE:
        r->at = AND;
        break;
    }
}

MF_TEST(data_language_is_predictable_to_45_percent)
{
    int32_t words[LENGTH], next[LENGTH];
    const char *const *names;
    int64_t right = 0, n;
    mf_dataset *set;

    T_OK(mf_dataset_open("synthetic-language", "part=test", &set));
    n = mf_dataset_count(set);
    T_EQ(mf_dataset_classes(set, &names), 33);
    for (int64_t i = 0; i < n; i++) {
        reader r = { .at = PHRASE };

        T_OK(mf_dataset_read(set, 0, i, (void *[]){ words, next }));
        for (int k = 0; k < LENGTH; k++) {
            read_word(&r, names[words[k]]);
            right += strcmp(guess(&r), names[next[k]]) == 0;
        }
    }
    T_NEAR((double)right / (double)(n * LENGTH), 0.4453, 0.0001);
    mf_dataset_unref(set);
}
