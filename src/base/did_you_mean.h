/* SPDX-License-Identifier: Apache-2.0 */
/* did_you_mean.h - the known name that is closest to a misspelled one. */
#ifndef MF_BASE_DID_YOU_MEAN_H
#define MF_BASE_DID_YOU_MEAN_H

typedef struct mf_did_you_mean {
    const char *word; /* the misspelled name */
    const char *best; /* NULL: nothing is close */
    int distance;
} mf_did_you_mean;

mf_did_you_mean mf_did_you_mean_to(const char *word);
void mf_did_you_mean_try(mf_did_you_mean *c, const char *candidate);

#endif
