/* SPDX-License-Identifier: Apache-2.0 */
/* mailbox.h - messages on their way from a transport's thread, which must not wait, to one that has
 * time for them. */
#ifndef MF_NET_MAILBOX_H
#define MF_NET_MAILBOX_H

#include "net/net.h"

#include <pthread.h>

typedef struct mf_mail {
    int from;
    mf_frame frame;
    void *data; /* frame.size bytes */
    struct mf_mail *next;
} mf_mail;

/* Thread: any. */
typedef struct mf_mailbox {
    pthread_mutex_t lock; /* all below */
    pthread_cond_t changed;
    mf_mail *first, *last;
    bool woken, closed;
    bool broken; /* a message was dropped: there was no memory for it */
} mf_mailbox;

void mf_mailbox_init(mf_mailbox *box);
void mf_mailbox_deinit(mf_mailbox *box);

/* A mf_net_serve_fn; ctx: the mailbox. Takes the data over. */
void mf_mailbox_put(void *ctx, int from, const mf_frame *f, void *data);
/* The same with mail that came another way. */
void mf_mailbox_add(mf_mailbox *box, mf_mail *mail);
/* The first that came. NULL: until_ns (0: never) has passed, or somebody called mf_mailbox_wake()
 * since the last NULL, or it is closed, or broken. Owns: mf_mail_free(). */
mf_mail *mf_mailbox_take(mf_mailbox *box, int64_t until_ns);
/* RESOURCE_EXHAUSTED: it is broken. A message was lost, so all that came later is dropped, too. */
MF_MUST mf_status mf_mailbox_check(mf_mailbox *box);
/* Let whoever waits look around. */
void mf_mailbox_wake(mf_mailbox *box);
/* All who wait go on; what is put into it from now on is dropped. */
void mf_mailbox_close(mf_mailbox *box);
void mf_mail_free(mf_mail *mail);

#endif
