/* SPDX-License-Identifier: Apache-2.0 */
/* mailbox.c - messages that arrive before an error of the connection are delivered first. */
#include "net/mailbox.h"

#include "base/clock.h"
#include "base/mem.h"
#include "mf_test.h"

static void put(mf_mailbox *box, int from)
{
    mf_mailbox_put(box, from, &(mf_frame){ .kind = MF_MESSAGE_REQUEST }, NULL);
}

MF_TEST(dispatch_mailbox_reports_a_lost_message_after_the_earlier_ones)
{
    mf_mailbox box;
    mf_mail *mail;

    mf_mailbox_init(&box);
    put(&box, 1);
    mf_mem_fail_at(1);
    put(&box, 2);
    mf_mem_fail_at(0);
    put(&box, 3); /* would arrive instead of another message */
    mail = mf_mailbox_take(&box, 0);
    T_TRUE(mail && mail->from == 1);
    mf_mail_free(mail);
    T_TRUE(mf_mailbox_take(&box, 0) == NULL); /* at once */
    T_FAILS(MF_RESOURCE_EXHAUSTED, "message", mf_mailbox_check(&box));
    mf_mailbox_deinit(&box);
}
