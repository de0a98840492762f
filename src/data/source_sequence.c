/* SPDX-License-Identifier: Apache-2.0 */
/* source_sequence.c - "synthetic-sequence": 32 symbols with some 1s and some 2s; the label is which
 * of the two came first or, with task=more, which is more frequent. */
#include "data/generated.h"

#include <string.h>

enum { LENGTH = 32, ALPHABET = 10 };

/* The label; 0: a tie. */
static int winner(const int32_t *tokens, bool by_number)
{
    int ones = 0, twos = 0;

    for (int i = 0; i < LENGTH; i++) {
        if (!by_number && tokens[i] < 3)
            return tokens[i];
        ones += tokens[i] == 1;
        twos += tokens[i] == 2;
    }
    return ones > twos ? 1 : twos > ones ? 2 : 0;
}

static void make_sequence(const mf_generated *g, mf_draws *d, void *const *columns)
{
    int32_t tokens[LENGTH], label;

    do {
        for (int i = 0; i < LENGTH; i++) {
            const int which = mf_draws_below(d, 16);

            tokens[i] = which < 2 ? 1 + which : 3 + mf_draws_below(d, ALPHABET - 3);
        }
    } while (winner(tokens, g->variant) == 0);
    label = winner(tokens, g->variant) - 1;
    mf_generated_put(columns[0], tokens, sizeof tokens);
    mf_generated_put(columns[1], &label, sizeof label);
}

static mf_status sequence_open(const char *data, const mf_options *o, mf_dataset **out)
{
    static const char *const names[] = { "one", "two" };
    mf_generated *g;
    mf_status st;

    (void)data;
    MF_TRY(mf_generated_new(o, 50000, 2, make_sequence, &g));
    g->variant = strcmp(mf_options_string(o, "task"), "more") == 0;
    MF_TRY_TO(fail, mf_dataset_set_column(&g->base, 0, "tokens", MF_DTYPE_I32, &MF_SHAPE(LENGTH)));
    MF_TRY_TO(fail, mf_dataset_set_column(&g->base, 1, "label", MF_DTYPE_I32, &MF_SCALAR));
    MF_TRY_TO(fail, mf_dataset_set_classes(&g->base, names, 2));
    *out = &g->base;
    return MF_OK;
fail:
    mf_dataset_unref(&g->base);
    return st;
}

const mf_source mf_source_sequence = {
    .name = "synthetic-sequence",
    .summary = "which of two symbols comes first (or is more frequent) among others",
    .settings = "{" MF_GENERATED_SETTINGS ", task: string in ['first','more'] = 'first'}",
    .open = sequence_open,
    .is_name = true,
};
