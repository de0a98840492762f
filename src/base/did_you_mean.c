/* SPDX-License-Identifier: Apache-2.0 */
/* did_you_mean.c - the known name closest to a misspelled one: by edit distance (letters added,
 * removed, replaced or swapped) if it is small; or a name whose words begin with the given letters.
 */
#include "base/did_you_mean.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum { LONGEST = 64 };

static int did_you_mean_min(int a, int b)
{
    return a < b ? a : b;
}

static int did_you_mean_distance(const char *a, size_t na, const char *b, size_t nb)
{
    int rows[3][LONGEST + 1]; /* the row before the previous one, the previous one, the current
                                 one */
    int *older = rows[0], *old = rows[1], *now = rows[2];

    for (size_t j = 0; j <= nb; j++)
        old[j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int *spare = older;

        now[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            const bool same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);

            now[j] = did_you_mean_min(old[j - 1] + !same, did_you_mean_min(old[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = did_you_mean_min(now[j], older[j - 2] + 1);
        }
        older = old;
        old = now;
        now = spare;
    }
    return old[nb];
}

/* "lr" is learning_rate. */
static bool are_initials(const char *word, const char *candidate)
{
    size_t n = 0;

    for (const char *at = candidate; at; n++) {
        if (!word[n] || *at != word[n])
            return false;
        at = strpbrk(at, "_-");
        if (at)
            at++;
    }
    return n > 1 && !word[n];
}

mf_did_you_mean mf_did_you_mean_to(const char *word)
{
    return (mf_did_you_mean){ .word = word, .distance = 1 + (int)(strlen(word) + 2) / 3 };
}

void mf_did_you_mean_try(mf_did_you_mean *c, const char *candidate)
{
    const size_t na = strlen(c->word), nb = strlen(candidate);
    int d;

    if (na > LONGEST || nb > LONGEST || nb == 0)
        return;
    d = are_initials(c->word, candidate) ? 1 : did_you_mean_distance(c->word, na, candidate, nb);
    if (d < c->distance) {
        c->distance = d;
        c->best = candidate;
    }
}
