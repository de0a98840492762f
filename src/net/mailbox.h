/* SPDX-License-Identifier: Apache-2.0 */
/* mailbox.h - passes messages from a transport's thread, which must not block, to a thread that
 * handles them. */
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
    pthread_mutex_t lock; /* guards all fields below */
    pthread_cond_t changed;
    mf_mail *first, *last;
    bool woken, closed;
    bool broken; /* a message was dropped because memory was exhausted */
} mf_mailbox;

void mf_mailbox_init(mf_mailbox *box);
void mf_mailbox_deinit(mf_mailbox *box);

/* An mf_net_serve_fn; ctx: the mailbox. Takes ownership of the data. */
void mf_mailbox_put(void *ctx, int from, const mf_frame *f, void *data);
/* The same for mail from another source. */
void mf_mailbox_add(mf_mailbox *box, mf_mail *mail);
/* Returns the oldest mail. NULL: until_ns (0: no limit) has passed, mf_mailbox_wake() was called
 * since the last NULL, or the mailbox is closed or broken. Owns: the caller calls mf_mail_free().
 */
mf_mail *mf_mailbox_take(mf_mailbox *box, int64_t until_ns);
/* Fails with RESOURCE_EXHAUSTED if the mailbox is broken. One message was lost, so all later ones
 * are dropped, too. */
MF_MUST mf_status mf_mailbox_check(mf_mailbox *box);
/* Wake a waiting thread: mf_mailbox_take() returns NULL. */
void mf_mailbox_wake(mf_mailbox *box);
/* Wake all waiting threads; later messages are dropped. */
void mf_mailbox_close(mf_mailbox *box);
void mf_mail_free(mf_mail *mail);

#endif
