/* SPDX-License-Identifier: Apache-2.0 */
/* transport_conform.h - what every transport must do, as tests that take the transport. */
#ifndef TESTS_UNIT_COMM_TALK_H
#define TESTS_UNIT_COMM_TALK_H

#include "unit/net/transport_kinds.h"

/* Five tasks, with addresses and with a rendezvous address only; one leaves. */
void talk_meet(const way *w);
/* Two that differ. */
void talk_refuse(const char *transport);
/* One of three aborts. */
void talk_give_up(const char *transport);
/* One of three is killed. */
void talk_kill(const way *w);
/* 100 MB in one message. */
void talk_big(const way *w);
/* Many small messages, in order. */
void talk_small(const char *transport);
/* The peer is stopped: the deadline is kept, and memory does not grow. */
void talk_stop_reading(const char *transport);

#endif
