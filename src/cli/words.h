/* SPDX-License-Identifier: Apache-2.0 */
/* words.h - how a process was started, as the kernel tells: words that each end with a zero. */
#ifndef MF_CLI_WORDS_H
#define MF_CLI_WORDS_H

#include "base/status.h"

typedef struct mf_words {
    char *text;
    char **list; /* ended by NULL, with room for MF_WORDS_ROOM more */
} mf_words;

enum { MF_WORDS_ROOM = 8 };

/* what: "cmdline" or "environ" of a process of this user. Owns: mf_words_deinit(), also after a
 * failure. */
MF_MUST mf_status mf_words_read(int64_t pid, const char *what, mf_words *out);
void mf_words_deinit(mf_words *w);

#endif
