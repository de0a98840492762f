/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_frame.c - untrusted bytes from another task: the header of a message, and a handshake. The
 * first
 * byte selects one. A header that parses is encoded and parsed again. */
#include "base/mem.h"
#include "net/net_private.h"

#include <stdint.h>
#include <string.h>

static void fuzz_head(const uint8_t *data, size_t size)
{
    unsigned char bytes[MF_FRAME_BYTES] = { 0 }, again[MF_FRAME_BYTES];
    mf_frame a, b;

    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    if (!mf_frame_read(bytes, &a)) {
        a.size %= (uint64_t)MF_FRAME_MAX + 1; /* a valid sender writes no more */
        mf_frame_write(&a, again);
        MF_ASSERT(mf_frame_read(again, &b));
        return;
    }
    mf_frame_write(&a, again);
    MF_ASSERT(mf_frame_read(again, &b));
    MF_ASSERT(a.kind == b.kind && a.flags == b.flags && a.epoch == b.epoch && a.group == b.group &&
              a.seq == b.seq && a.step == b.step && a.size == b.size && a.crc == b.crc);
}

/* A handshake with task 1 of 3. */
static void fuzz_greeting(const uint8_t *data, size_t size)
{
    mf_peer peers[3] = { { .name = "a" }, { .name = "b" }, { .name = "c" } };
    mf_net net = { .inbox = { &mf_net_inbox },
                   .lock = PTHREAD_MUTEX_INITIALIZER,
                   .changed = PTHREAD_COND_INITIALIZER,
                   .peers = peers,
                   .n_tasks = 3,
                   .self = 1,
                   .identity = "numerics=x\nmodel=mlp\n" };
    char *text = mf_strndup((const char *)data, size);
    int peer = -1;

    MF_ASSERT(text);
    if (mf_net_hello(&net.inbox, text, &peer) == MF_OK) {
        MF_ASSERT(peer == 0 || peer == 2);
        MF_ASSERT(mf_net_hello(&net.inbox, text, &peer) == MF_ALREADY_EXISTS);
    }
    for (int i = 0; i < 3; i++) {
        mf_free(peers[i].address);
        mf_free(peers[i].host);
    }
    mf_free(net.job);
    mf_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 0 && data[0] == 0)
        fuzz_head(data + 1, size - 1);
    else if (size > 0)
        fuzz_greeting(data + 1, size - 1);
    return 0;
}
