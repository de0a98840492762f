/* SPDX-License-Identifier: Apache-2.0 */
/* mailbox.c - a queue of received messages between a transport's thread and a task's thread. */
#include "net/mailbox.h"

#include "base/clock.h"
#include "base/cond.h"
#include "base/mem.h"

void mf_mailbox_init(mf_mailbox *box)
{
    *box = (mf_mailbox){ 0 };
    pthread_mutex_init(&box->lock, NULL);
    mf_cond_init(&box->changed);
}

void mf_mailbox_deinit(mf_mailbox *box)
{
    while (box->first) {
        mf_mail *mail = box->first;

        box->first = mail->next;
        mf_mail_free(mail);
    }
    pthread_cond_destroy(&box->changed);
    pthread_mutex_destroy(&box->lock);
}

void mf_mail_free(mf_mail *mail)
{
    if (!mail)
        return;
    mf_free(mail->data);
    mf_free(mail);
}

void mf_mailbox_add(mf_mailbox *box, mf_mail *mail)
{
    bool closed;

    mail->next = NULL;
    pthread_mutex_lock(&box->lock);
    closed = box->closed || box->broken;
    if (!closed && box->last)
        box->last->next = mail;
    else if (!closed)
        box->first = mail;
    if (!closed)
        box->last = mail;
    pthread_cond_signal(&box->changed);
    pthread_mutex_unlock(&box->lock);
    if (closed)
        mf_mail_free(mail);
}

static void mark_broken(mf_mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    box->broken = true;
    pthread_cond_broadcast(&box->changed);
    pthread_mutex_unlock(&box->lock);
}

void mf_mailbox_put(void *ctx, int from, const mf_frame *f, void *data)
{
    mf_mail *mail = mf_calloc(1, sizeof *mail);

    if (!mail) {
        mf_free(data);
        mark_broken(ctx);
        return;
    }
    *mail = (mf_mail){ .from = from, .frame = *f, .data = data };
    mf_mailbox_add(ctx, mail);
}

mf_mail *mf_mailbox_take(mf_mailbox *box, int64_t until_ns)
{
    mf_mail *mail;

    pthread_mutex_lock(&box->lock);
    while (!box->first && !box->woken && !box->closed && !box->broken) {
        if (until_ns == 0)
            pthread_cond_wait(&box->changed, &box->lock);
        else if (mf_clock_ns() >= until_ns ||
                 !mf_cond_wait_until(&box->changed, &box->lock, until_ns))
            break;
    }
    mail = box->closed ? NULL : box->first;
    if (mail)
        box->first = mail->next;
    else
        box->woken = false;
    if (!box->first)
        box->last = NULL;
    pthread_mutex_unlock(&box->lock);
    return mail;
}

mf_status mf_mailbox_check(mf_mailbox *box)
{
    bool broken;

    pthread_mutex_lock(&box->lock);
    broken = box->broken;
    pthread_mutex_unlock(&box->lock);
    return broken ? MF_NOMEM("a message that came") : MF_OK;
}

void mf_mailbox_wake(mf_mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    box->woken = true;
    pthread_cond_signal(&box->changed);
    pthread_mutex_unlock(&box->lock);
}

void mf_mailbox_close(mf_mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    box->closed = true;
    pthread_cond_broadcast(&box->changed);
    pthread_mutex_unlock(&box->lock);
}
