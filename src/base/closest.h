/* SPDX-License-Identifier: Apache-2.0 */
/* closest.h - which known name was meant by a wrong one. */
#ifndef MF_BASE_CLOSEST_H
#define MF_BASE_CLOSEST_H

typedef struct mf_closest {
    const char *word; /* what was given */
    const char *best; /* NULL: nothing is close */
    int distance;
} mf_closest;

mf_closest mf_closest_to(const char *word);
void mf_closest_try(mf_closest *c, const char *candidate);

#endif
