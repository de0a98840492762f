/* SPDX-License-Identifier: Apache-2.0 */
/* grpc_transport.c - the transport between hosts: certificates, large and many messages. */
#include "base/clock.h"
#include "mf_test.h"
#include "net/certificates.h"
#include "unit/net/transport_conform.h"

#include <stdio.h>
#include <string.h>

/* ---- connecting and closing ---- */

MF_TEST(comm_grpc_tasks_connect_by_addresses_or_a_rendezvous_address)
{
    way w = { 0 };

    way_init(&w, "grpc", 5);
    talk_meet(&w);
}

MF_TEST(comm_grpc_tasks_connect_with_certificates)
{
    way w = { 0 };

    way_init_tls(&w, 5);
    talk_meet(&w);
}

MF_TEST(comm_grpc_incompatible_tasks_are_refused_and_both_are_named)
{
    talk_refuse("grpc");
}

MF_TEST(comm_grpc_an_abort_sends_its_reason_to_all_tasks)
{
    talk_give_up("grpc");
}

MF_TEST(comm_grpc_a_task_that_is_killed_is_named_at_once)
{
    way w = { 0 };

    way_init(&w, "grpc", 3);
    talk_kill(&w);
}

/* ---- authentication ---- */

/* Two tasks; one has another certificate of the same authority. Task 1 must report this. */
static void refuse(mf_certificate_options o, int bad, const char *part)
{
    static const char *const hosts[] = { "127.0.0.1" };
    const int64_t now = mf_clock_wall_ns() / 1000000000;
    way w = { 0 };
    task t[2] = { 0 };
    cert_files ca, made;

    way_init_tls(&w, 2);
    (void)snprintf(ca.cert, sizeof ca.cert, "%s", w.security[0].ca);
    (void)snprintf(ca.key, sizeof ca.key, "%s", way_ca_key());
    o.name = "a test";
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
    T_TRUE(t[1].st != MF_OK);
    if (!strstr(t[1].error, part))
        T_FAIL("'%s' does not contain '%s'", t[1].error, part);
    mf_net_close(t[0].net); /* the error may arrive later */
}

/* Task `bad` has a certificate of another authority, which it trusts as well. */
static void refuse_foreign(int bad, const char *part)
{
    const int64_t now = mf_clock_wall_ns() / 1000000000;
    static const char *const hosts[] = { "127.0.0.1" };
    way w = { 0 };
    task t[2] = { 0 };
    cert_files foreign, made;
    char both[96];

    way_init_tls(&w, 2);
    cert_make_ca(&foreign);
    cert_make(&foreign,
              &(mf_certificate_options){ .name = "foreign",
                                         .hosts = hosts,
                                         .n_hosts = 1,
                                         .begin_s = now - 60,
                                         .end_s = now + 60 },
              &made);
    cert_join(w.security[bad].ca, foreign.cert, both);
    w.security[bad] = (mf_security){ .ca = both, .cert = made.cert, .key = made.key };
    open_all(t, 2, true, &w);
    T_TRUE(t[0].st != MF_OK && t[1].st != MF_OK);
    if (!strstr(t[1].error, part))
        T_FAIL("'%s' does not contain '%s'", t[1].error, part);
}

MF_TEST(comm_grpc_a_task_of_another_authority_is_refused)
{
    refuse_foreign(1, "worker 0");
}

MF_TEST(comm_grpc_a_server_of_another_authority_is_not_trusted)
{
    refuse_foreign(0, "its certificate is not from our authority");
}

MF_TEST(comm_grpc_an_expired_or_foreign_certificate_is_not_used)
{
    const int64_t now = mf_clock_wall_ns() / 1000000000;
    way w = { 0 };
    task t = { .n = 2, .known = true, .way = &w };
    cert_files foreign, made;
    const char *key;

    refuse((mf_certificate_options){ .begin_s = now - 7200, .end_s = now - 3600 }, 1,
           "it has expired (`meshflow cert` creates new ones)");
    refuse((mf_certificate_options){ .begin_s = now + 3600, .end_s = now + 7200 }, 1,
           "it is not valid yet");
    way_init_tls(&w, 2);
    key = w.security[0].key;
    w.security[0].key = w.security[1].key;
    T_FAILS(MF_INVALID_ARGUMENT, "is not the key of", open_task(&t));
    w.security[0].key = w.security[0].cert;
    T_FAILS(MF_INVALID_ARGUMENT, "contains no private key", open_task(&t));
    w.security[0].key = key;
    cert_make_ca(&foreign);
    cert_make(&foreign,
              &(mf_certificate_options){ .name = "x", .begin_s = now - 9, .end_s = now + 99 },
              &made);
    w.security[0].cert = made.cert;
    w.security[0].key = made.key;
    T_FAILS(MF_UNAUTHENTICATED, "it is from another authority", open_task(&t));
}

MF_TEST(comm_grpc_a_server_that_is_another_host_is_not_trusted)
{
    static const char *const hosts[] = { "elsewhere" };

    refuse((mf_certificate_options){ .hosts = hosts, .n_hosts = 1 }, 0, "127.0.0.1");
}

MF_TEST(comm_grpc_a_task_with_the_certificate_of_another_is_refused)
{
    refuse((mf_certificate_options){ .task = "worker 7" }, 1,
           "it identifies itself as worker 1, but its certificate is that of worker 7");
}

MF_TEST(comm_grpc_a_server_with_the_certificate_of_another_task_is_refused)
{
    refuse((mf_certificate_options){ .task = "worker 7" }, 0,
           "it identifies itself as worker 0, but its certificate is that of worker 7");
}

MF_TEST(comm_grpc_a_task_without_certificate_is_refused)
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

MF_TEST(comm_grpc_an_address_in_use_is_an_error)
{
    way w = { 0 };
    task t[2] = { 0 };

    way_init(&w, "grpc", 2);
    (void)snprintf(w.addresses[1], sizeof w.addresses[1], "%s", w.addresses[0]);
    open_all(t, 2, true, &w);
    T_TRUE(t[0].st == MF_ALREADY_EXISTS || t[1].st == MF_ALREADY_EXISTS);
}

/* ---- large and many messages ---- */

MF_TEST(comm_grpc_carries_100_megabytes)
{
    way w = { 0 };

    way_init(&w, "grpc", 2);
    talk_big(&w);
}

MF_TEST(comm_grpc_carries_100_megabytes_with_tls)
{
    way w = { 0 };

    way_init_tls(&w, 2);
    talk_big(&w);
}

MF_TEST(comm_grpc_carries_many_small_messages_in_order)
{
    talk_small("grpc");
}

MF_TEST(comm_grpc_a_peer_that_stops_reading_costs_neither_memory_nor_the_deadline)
{
    talk_stop_reading("grpc");
}
