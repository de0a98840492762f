/* SPDX-License-Identifier: Apache-2.0 */
/* did_you_mean.c - suggestions for misspelled names. */
#include "base/did_you_mean.h"

#include "mf_test.h"

#include <stddef.h>

static const char *meant(const char *word)
{
    mf_did_you_mean c = mf_did_you_mean_to(word);

    mf_did_you_mean_try(&c, "learning_rate");
    mf_did_you_mean_try(&c, "momentum");
    mf_did_you_mean_try(&c, "job-name");
    return c.best;
}

MF_TEST(did_you_mean_matches_initials_of_words)
{
    T_STREQ(meant("lr"), "learning_rate");
    T_STREQ(meant("jn"), "job-name");
    T_STREQ(meant("l"), NULL); /* one letter is not enough */
    T_STREQ(meant("lrx"), NULL);
    T_STREQ(meant("momentun"), "momentum");
}
