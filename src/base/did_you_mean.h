/* SPDX-License-Identifier: Apache-2.0 */
/* did_you_mean.h - which known name was meant by a wrong one. */
#ifndef MF_BASE_DID_YOU_MEAN_H
#define MF_BASE_DID_YOU_MEAN_H

typedef struct mf_did_you_mean {
    const char *word; /* what was given */
    const char *best; /* NULL: nothing is close */
    int distance;
} mf_did_you_mean;

mf_did_you_mean mf_did_you_mean_to(const char *word);
void mf_did_you_mean_try(mf_did_you_mean *c, const char *candidate);

#endif
