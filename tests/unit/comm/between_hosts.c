/* SPDX-License-Identifier: Apache-2.0 */
/* between_hosts.c - the transports between hosts: who is let in, and much to carry. */
#include "base/clock.h"
#include "base/mem.h"
#include "comm/certificates.h"
#include "mf_test.h"
#include "unit/comm/ways.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- who is let in ---- */

/* Two tasks; task 1 has another certificate. Both must fail, task 1 saying this. */
static void refuse(const cert_files *ca, const mf_certificate_options *o, const char *part)
{
    way w = { 0 };
    task t[2] = { 0 };
    cert_files other;

    way_init_tls(&w, 2);
    if (o) {
        cert_make(ca, o, &other);
        w.security[1].cert = other.cert;
        w.security[1].key = other.key;
    }
    open_all(t, 2, true, &w);
    T_TRUE(t[0].st != MF_OK && t[1].st != MF_OK);
    if (!strstr(t[1].error, part))
        T_FAIL("'%s' does not contain '%s'", t[1].error, part);
}

/* The authority of way_init_tls() is known only to itself: its files are what security names. */
static void refuse_own(mf_certificate_options o, const char *part, bool as_server)
{
    static const char *const hosts[] = { "127.0.0.1" };
    const int64_t now = mf_clock_wall_ns() / 1000000000;
    const int bad = as_server ? 0 : 1;
    way w = { 0 };
    task t[2] = { 0 };
    cert_files ca, made;

    way_init_tls(&w, 2);
    (void)snprintf(ca.cert, sizeof ca.cert, "%s", w.security[0].ca);
    (void)snprintf(ca.key, sizeof ca.key, "%s", way_ca_key());
    o.name = o.name ? o.name : "a test";
    o.begin_s = o.begin_s ? o.begin_s : now - 60;
    o.end_s = o.end_s ? o.end_s : now + 3600;
    if (!o.hosts) {
        o.hosts = hosts;
        o.n_hosts = 1;
    }
    cert_make(&ca, &o, &made);
    w.security[bad].cert = made.cert;
    w.security[bad].key = made.key;
    open_all(t, 2, true, &w);
    T_TRUE(t[1].st != MF_OK && (as_server || t[0].st != MF_OK)); /* a server may hear it later */
    if (!strstr(t[1].error, part))
        T_FAIL("'%s' does not contain '%s'", t[1].error, part);
    mf_net_close(t[0].net);
}

MF_TEST(comm_grpc_a_certificate_of_another_authority_is_refused)
{
    const int64_t now = mf_clock_wall_ns() / 1000000000;
    static const char *const hosts[] = { "127.0.0.1" };
    cert_files foreign;

    cert_make_ca(&foreign);
    refuse(&foreign,
           &(mf_certificate_options){ .name = "foreign",
                                      .hosts = hosts,
                                      .n_hosts = 1,
                                      .begin_s = now - 60,
                                      .end_s = now + 60 },
           "worker 0");
}

MF_TEST(comm_grpc_a_certificate_that_has_expired_is_refused)
{
    const int64_t now = mf_clock_wall_ns() / 1000000000;

    refuse_own((mf_certificate_options){ .begin_s = now - 7200, .end_s = now - 3600 }, "worker 0",
               false);
}

MF_TEST(comm_grpc_a_server_whose_certificate_has_expired_is_not_trusted)
{
    const int64_t now = mf_clock_wall_ns() / 1000000000;

    refuse_own((mf_certificate_options){ .begin_s = now - 7200, .end_s = now - 3600 },
               "certificate verify failed", true);
}

MF_TEST(comm_grpc_a_server_that_is_another_host_is_not_trusted)
{
    static const char *const hosts[] = { "elsewhere" };

    refuse_own((mf_certificate_options){ .hosts = hosts, .n_hosts = 1 }, "127.0.0.1", true);
}

MF_TEST(comm_grpc_a_task_with_the_certificate_of_another_is_refused)
{
    refuse_own((mf_certificate_options){ .task = "worker 7" },
               "it says that it is worker%201, but its certificate is that of worker%207", false);
}

MF_TEST(comm_grpc_a_server_with_the_certificate_of_another_task_is_refused)
{
    refuse_own((mf_certificate_options){ .task = "worker 7" },
               "it says that it is worker%200, but its certificate is that of worker%207", true);
}

MF_TEST(comm_grpc_who_shows_no_certificate_is_refused)
{
    way w = { 0 };
    task t[2] = { 0 };

    way_init_tls(&w, 2);
    w.security[1] = (mf_security){ 0 };
    open_all(t, 2, true, &w);
    T_TRUE(t[0].st != MF_OK && t[1].st != MF_OK);
}

MF_TEST(comm_grpc_other_addresses_than_loopback_need_certificates)
{
    way w = { 0 };
    task t = { .n = 2, .known = true, .way = &w };

    way_init(&w, "grpc", 2);
    (void)snprintf(w.addresses[0], sizeof w.addresses[0], "0.0.0.0:0");
    T_FAILS(MF_FAILED_PRECONDITION, "meshflow cert --out DIR", open_task(&t));
    w.security[0].ca = "ca.pem";
    T_FAILS(MF_INVALID_ARGUMENT, "MESHFLOW_TLS_CERT", open_task(&t));
    w.security[0].cert = w.security[0].key = "/no/such/file.pem";
    w.security[0].ca = "/no/such/ca.pem";
    T_FAILS(MF_NOT_FOUND, "/no/such/ca.pem", open_task(&t));
    w.security[0] = (mf_security){ .insecure_any_peer = true };
    t.timeout_ns = 100000000;
    T_FAILS(MF_DEADLINE_EXCEEDED, "worker 1", open_task(&t));
}

MF_TEST(comm_grpc_an_address_that_is_taken_is_an_error)
{
    way w = { 0 };
    task t[2] = { 0 };

    way_init(&w, "grpc", 2);
    (void)snprintf(w.addresses[1], sizeof w.addresses[1], "%s", w.addresses[0]);
    open_all(t, 2, true, &w);
    T_TRUE(t[0].st == MF_ALREADY_EXISTS || t[1].st == MF_ALREADY_EXISTS);
}

MF_TEST(comm_ucx_other_addresses_than_loopback_must_be_trusted)
{
    way w = { 0 };
    task t = { .n = 2, .known = true, .way = &w };

    way_init(&w, "ucx", 2);
    (void)snprintf(w.addresses[0], sizeof w.addresses[0], "0.0.0.0:0");
    T_FAILS(MF_FAILED_PRECONDITION, "does not encrypt", open_task(&t));
    w.security[0].trusted = true;
    t.timeout_ns = 100000000;
    T_FAILS(MF_DEADLINE_EXCEEDED, "worker 1", open_task(&t));
}

/* ---- much to carry ---- */

enum { BIG = 100 << 20, SMALL_ONES = 20000 };

typedef struct stretch {
    mf_net *net;
    char *data;
    mf_status st;
} stretch;

static void *send_big(void *arg)
{
    stretch *s = arg;
    const mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .seq = 1, .size = BIG };

    s->st = mf_net_send(s->net, 1, &f, s->data, mf_clock_ns() + 50000000000);
    return NULL;
}

static void carry_big(const way *w)
{
    const mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .seq = 1, .size = BIG };
    task t[2] = { 0 };
    stretch s;
    char *got = mf_calloc(BIG, 1);
    pthread_t thread;

    open_all(t, 2, true, w);
    T_STREQ(t[0].error, "");
    T_STREQ(t[1].error, "");
    s = (stretch){ .net = t[0].net, .data = mf_calloc(BIG, 1) };
    for (int64_t i = 0; i < BIG; i += 997)
        s.data[i] = (char)i;
    T_EQ(pthread_create(&thread, NULL, send_big, &s), 0);
    T_OK(mf_net_recv(t[1].net, 0, &f, got, mf_clock_ns() + 50000000000, "much"));
    pthread_join(thread, NULL);
    T_OK(s.st);
    T_EQ(memcmp(got, s.data, BIG), 0);
    mf_free(got);
    mf_free(s.data);
    close_all(t, 2);
}

MF_TEST(comm_grpc_carries_100_megabytes)
{
    way w = { 0 };

    way_init(&w, "grpc", 2);
    carry_big(&w);
}

MF_TEST(comm_grpc_carries_100_megabytes_with_tls)
{
    way w = { 0 };

    way_init_tls(&w, 2);
    carry_big(&w);
}

MF_TEST(comm_ucx_carries_100_megabytes)
{
    way w = { 0 };

    way_init(&w, "ucx", 2);
    carry_big(&w);
}

static void *send_small(void *arg)
{
    stretch *s = arg;

    for (int i = 0; i < SMALL_ONES && s->st == MF_OK; i++) {
        const mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .seq = (uint32_t)i, .size = sizeof i };

        s->st = mf_net_send(s->net, 1, &f, &i, mf_clock_ns() + 20000000000);
    }
    return NULL;
}

static void carry_small(const char *transport)
{
    way w = { 0 };
    task t[2] = { 0 };
    stretch s;
    pthread_t thread;

    way_init(&w, transport, 2);
    open_all(t, 2, true, &w);
    T_STREQ(t[0].error, "");
    T_STREQ(t[1].error, "");
    s = (stretch){ .net = t[0].net };
    T_EQ(pthread_create(&thread, NULL, send_small, &s), 0);
    for (int i = 0; i < SMALL_ONES; i++) {
        const mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .seq = (uint32_t)i, .size = sizeof i };
        int got = -1;

        T_OK(mf_net_recv(t[1].net, 0, &f, &got, mf_clock_ns() + 20000000000, "a number"));
        T_EQ(got, i);
    }
    pthread_join(thread, NULL);
    T_OK(s.st);
    close_all(t, 2);
}

MF_TEST(comm_grpc_carries_many_small_messages_in_order)
{
    carry_small("grpc");
}

MF_TEST(comm_ucx_carries_many_small_messages_in_order)
{
    carry_small("ucx");
}

/* ---- a peer that does not read ---- */

static int64_t peak_kib(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

static _Noreturn void be_task_1(const way *w)
{
    task t = { .self = 1, .n = 2, .known = true, .way = w, .timeout_ns = 20000000000 };

    if (open_task(&t) != MF_OK)
        _exit(1);
    for (;;)
        pause();
}

/* self 0 accepts the connection, self 1 makes it: both ends must get away. */
static void stop_reading(const char *transport)
{
    way w = { 0 };
    task t = { .self = 0, .n = 2, .known = true, .way = &w, .timeout_ns = 20000000000 };
    mf_frame f = { .kind = MF_MESSAGE_COLLECTIVE, .size = 32 << 20 };
    char *data = mf_calloc((int64_t)f.size, 1);
    int64_t before, since;
    mf_status st = MF_OK;
    pid_t child;

    memset(data, 1, f.size);
    way_init(&w, transport, 2);
    child = fork();
    if (child == 0)
        be_task_1(&w);
    T_OK(open_task(&t));
    T_OK(mf_net_send(t.net, 1, &f, data, mf_clock_ns() + 10000000000));
    kill(child, SIGSTOP);
    before = peak_kib();
    since = mf_clock_ns();
    for (int i = 1; i < 100 && st == MF_OK; i++) {
        f.seq = (uint32_t)i;
        st = mf_net_send(t.net, 1, &f, data, since + 700000000);
    }
    T_TRUE(st == MF_DEADLINE_EXCEEDED);
    T_TRUE(mf_clock_ns() - since < 3000000000);
    T_TRUE(peak_kib() - before < 64 << 10);
    memset(data, 2, f.size); /* it is ours again */
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    mf_net_close(t.net);
    mf_free(data);
}

MF_TEST(comm_grpc_a_peer_that_stops_reading_costs_neither_memory_nor_the_deadline)
{
    stop_reading("grpc");
}

MF_TEST(comm_ucx_a_peer_that_stops_reading_costs_neither_memory_nor_the_deadline)
{
    stop_reading("ucx");
}
