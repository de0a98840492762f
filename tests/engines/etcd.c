/* SPDX-License-Identifier: Apache-2.0 */
/* etcd.c - a store in etcd, with real servers: alone, three of which one is killed or stopped, with
 * TLS, and etcd_servers that talk nonsense. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "engines/etcd_servers.h"
#include "mf_test.h"
#include "net/transport_registry.h"
#include "unit/cluster/store/store_conform.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG_MS = 60000 };

/* ---- what every store does ---- */

static void short_lease(mf_store *s)
{
    store_lease_ends_unless_kept(s, 2000000000);
}

MF_TEST_TIMEOUT(cluster_store_etcd_does_what_every_store_does, 240)
{
    static void (*const checks[])(mf_store * s) = {
        store_values_have_versions,  store_lists_by_prefix,      store_takes_any_bytes,
        store_refuses_what_is_wrong, store_lease_ends_when_told, short_lease,
        store_wait_sees_changes,
    };
    etcd_servers e = { 0 };
    char url[300];

    etcd_servers_start(&e, 1);
    for (int i = 0; i < MF_COUNT(checks); i++) {
        mf_store *s;

        (void)snprintf(url, sizeof url, "%s/%d", e.url, i);
        s = etcd_store_open(url, NULL);
        checks[i](s);
        mf_store_close(s);
    }
    store_threads_count(e.url, 4, 20);
    etcd_servers_end(&e);
}

MF_TEST_TIMEOUT(cluster_store_etcd_passes_over_what_others_have_put_there, 120)
{
    static const char keys[] =
        "for key in jobs/test/a jobs/test/A jobs/testing jobs/test/b; do "
        "curl -sf http://127.0.0.1:%d/v3/kv/put -d '{\"key\":\"'$(printf $key | base64)'\","
        "\"value\":\"eA==\"}' >/dev/null || exit 1; done";
    static const char huge[] =
        "head -c 70000 /dev/zero | base64 -w0 | sed "
        "'s/^/{\"key\":\"am9icy90ZXN0L2I=\",\"value\":\"/;"
        "s/$/\"}/' | curl -sf http://127.0.0.1:%d/v3/kv/put -d @- >/dev/null";
    char command[512];
    mf_store_entries l;
    etcd_servers e = { 0 };
    mf_store *s;

    etcd_servers_start(&e, 1);
    s = etcd_store_open(e.url, NULL);
    (void)snprintf(command, sizeof command, keys, e.client_port[0]);
    T_EQ(system(command), 0);
    T_OK(mf_store_list(s, "", &l));
    T_EQ(l.n, 2);
    T_STREQ(l.entries[1].key, "b");
    mf_store_entries_deinit(&l);
    (void)snprintf(command, sizeof command, huge, e.client_port[0]);
    T_EQ(system(command), 0);
    T_FAILS(MF_DATA_LOSS, "more than 65536 bytes", mf_store_list(s, "", &l));
    mf_store_close(s);
    etcd_servers_end(&e);
}

/* ---- several servers ---- */

typedef struct toil {
    const char *url;
    atomic_bool stop;
    atomic_int wins, unknown;
} toil;

/* Counts. The next turn checks a put whose outcome is unknown. */
static void *count(void *arg)
{
    toil *t = arg;
    mf_store *s = etcd_store_open(t->url, NULL);

    while (!atomic_load(&t->stop)) {
        int64_t number = 0, version = MF_STORE_NEW;
        char text[32];
        mf_store_entry e;
        mf_status st = mf_store_get(s, "count", &e, NULL);

        if (st == MF_OK) {
            number = strtoll(e.value, NULL, 10);
            version = e.version;
        }
        mf_store_entry_deinit(&e);
        if (st != MF_OK && st != MF_NOT_FOUND) {
            T_TRUE(st == MF_UNAVAILABLE || st == MF_DEADLINE_EXCEEDED);
            continue;
        }
        (void)snprintf(text, sizeof text, "%lld", (long long)number + 1);
        st = mf_store_put(s, "count", text, strlen(text), version, 0, NULL);
        T_TRUE(st == MF_OK || st == MF_ABORTED || st == MF_UNAVAILABLE ||
               st == MF_DEADLINE_EXCEEDED);
        if (st == MF_OK)
            atomic_fetch_add(&t->wins, 1);
        else if (st != MF_ABORTED)
            atomic_fetch_add(&t->unknown, 1);
    }
    mf_store_close(s);
    return NULL;
}

static void expect_more_wins(toil *t, int n)
{
    const int before = atomic_load(&t->wins);
    const int64_t until = store_in_ms(LONG_MS);

    while (atomic_load(&t->wins) < before + n && mf_clock_ns() < until)
        usleep(10000);
    T_TRUE(atomic_load(&t->wins) >= before + n);
}

MF_TEST_TIMEOUT(cluster_store_etcd_survives_the_loss_of_one_of_three_servers, 300)
{
    toil t = { 0 };
    mf_store_entry entry;
    pthread_t threads[3];
    etcd_servers e = { 0 };
    mf_store *s;
    int64_t number, lease;

    etcd_servers_start(&e, 3);
    t.url = e.url;
    s = etcd_store_open(e.url, NULL);
    T_OK(mf_store_lease_grant(s, 120000000000, &lease));
    T_OK(mf_store_put(s, "member", "here", 4, MF_STORE_NEW, lease, NULL));
    for (int i = 0; i < MF_COUNT(threads); i++)
        T_EQ(pthread_create(&threads[i], NULL, count, &t), 0);
    expect_more_wins(&t, 20);
    for (int i = 0; i < 3; i++) { /* each of them, so the leader is among them */
        T_EQ(kill(e.pid[i], SIGKILL), 0);
        T_EQ(waitpid(e.pid[i], NULL, 0), e.pid[i]);
        expect_more_wins(&t, 20);
        T_OK(mf_store_lease_keep(s, lease));
        etcd_server_start(&e, i);
        expect_more_wins(&t, 20);
        sleep(2); /* a majority must be there before the next one goes */
    }
    T_EQ(kill(e.pid[0], SIGSTOP), 0);
    expect_more_wins(&t, 20);
    T_OK(mf_store_lease_keep(s, lease));
    T_EQ(kill(e.pid[0], SIGCONT), 0);
    atomic_store(&t.stop, true);
    for (int i = 0; i < MF_COUNT(threads); i++)
        T_EQ(pthread_join(threads[i], NULL), 0);
    T_OK(mf_store_get(s, "count", &entry, NULL));
    number = strtoll(entry.value, NULL, 10);
    mf_store_entry_deinit(&entry);
    T_TRUE(number >= atomic_load(&t.wins));
    T_TRUE(number <= atomic_load(&t.wins) + atomic_load(&t.unknown));
    T_OK(mf_store_get(s, "member", &entry, NULL));
    mf_store_entry_deinit(&entry);
    mf_store_close(s);
    etcd_servers_end(&e);
}

typedef struct put_later {
    mf_store *s;
    pid_t kill;
} put_later;

static void *kill_then_put(void *arg)
{
    const put_later *p = arg;

    sleep(1);
    (void)kill(p->kill, SIGKILL);
    sleep(1);
    for (int i = 0; i < 20; i++) { /* a leader may have to be found */
        if (mf_store_put(p->s, "w/x", "1", 1, MF_STORE_ANY, 0, NULL) == MF_OK)
            return NULL;
    }
    T_FAIL("nothing could be put");
}

MF_TEST_TIMEOUT(cluster_store_etcd_watch_continues_at_another_server, 180)
{
    etcd_servers e = { 0 };
    mf_store_entries l;
    put_later p;
    pthread_t thread;
    mf_store *s;

    etcd_servers_start(&e, 3);
    s = etcd_store_open(e.url, NULL);
    T_OK(mf_store_list(s, "", &l));
    p = (put_later){ s, e.pid[0] }; /* the first one is asked first */
    T_EQ(pthread_create(&thread, NULL, kill_then_put, &p), 0);
    T_OK(mf_store_wait(s, "w/", l.revision, store_in_ms(LONG_MS)));
    T_EQ(pthread_join(thread, NULL), 0);
    mf_store_entries_deinit(&l);
    mf_store_close(s);
    etcd_servers_end(&e);
}

/* ---- missing servers, foreign servers, invalid answers ---- */

MF_TEST(cluster_store_etcd_that_is_not_there_is_named)
{
    mf_store_options o = { .timeout_ns = 700000000 };
    mf_store_entries l;
    char url[128];
    mf_store *s;
    int64_t lease;

    (void)snprintf(url, sizeof url, "etcd://127.0.0.1:%d,127.0.0.1:%d", etcd_free_port(),
                   etcd_free_port());
    s = etcd_store_open(url, &o);
    T_FAILS(MF_UNAVAILABLE, "etcd at http://127.0.0.1:", mf_store_list(s, "", &l));
    T_FAILS(MF_UNAVAILABLE, "onnect", mf_store_put(s, "a", "", 0, MF_STORE_NEW, 0, NULL));
    T_FAILS(MF_UNAVAILABLE, "onnect", mf_store_lease_grant(s, 1000000000, &lease));
    T_FAILS(MF_UNAVAILABLE, "onnect", mf_store_wait(s, "", 0, store_in_ms(300)));
    mf_store_close(s);
}

MF_TEST(cluster_store_etcd_addresses_that_are_wrong_or_not_safe_are_refused)
{
    mf_store_options o = { 0 };
    mf_store *s;

    T_FAILS(MF_INVALID_ARGUMENT, "write HOST:PORT", mf_store_open("etcd://localhost", NULL, &s));
    T_FAILS(MF_INVALID_ARGUMENT, "write HOST:PORT", mf_store_open("etcd:///x", NULL, &s));
    T_FAILS(MF_INVALID_ARGUMENT, "write HOST:PORT",
            mf_store_open("etcd://me@127.0.0.1:1", NULL, &s));
    T_FAILS(MF_INVALID_ARGUMENT, "write HOST:PORT",
            mf_store_open("etcd://127.0.0.1:1,/x", NULL, &s));
    T_FAILS(MF_INVALID_ARGUMENT, "is no prefix",
            mf_store_open("etcd://127.0.0.1:1/Job 1", NULL, &s));
    T_FAILS(MF_FAILED_PRECONDITION, "without TLS", mf_store_open("etcd://192.0.2.1:1", NULL, &s));
    o.security.insecure_any_peer = true;
    T_OK(mf_store_open("etcd://192.0.2.1:1", &o, &s));
    mf_store_close(s);
    o.security = (mf_security){ .ca = "/nowhere/ca.pem" };
    T_FAILS(MF_INVALID_ARGUMENT, "the certificate is missing",
            mf_store_open("etcd://192.0.2.1:1", &o, &s));
    o.security = (mf_security){ "/nowhere/ca.pem", "/nowhere/cert.pem", "/nowhere/key.pem", 0, 0 };
    T_FAILS(MF_NOT_FOUND, "/nowhere/ca.pem", mf_store_open("etcd://192.0.2.1:1", &o, &s));
}

/* A server that sends the same answer to every client. */
typedef struct liar {
    _Atomic(const char *) says;
    int fd;
} liar;

static void *lie(void *arg)
{
    liar *l = arg;
    char request[65536];
    int fd;

    while ((fd = accept(l->fd, NULL, NULL)) >= 0) {
        const char *says = atomic_load(&l->says);

        if (read(fd, request, sizeof request) > 0)
            (void)!write(fd, says, strlen(says));
        (void)close(fd);
    }
    return NULL;
}

MF_TEST(cluster_store_etcd_nonsense_is_an_error_and_no_more)
{
#define HTTP "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
#define HEADER "\"header\":{\"revision\":\"7\"}"
    static const struct {
        const char *says, *error;
    } cases[] = {
        { "", "" },
        { "SSH-2.0-OpenSSH_9.2\r\n", "" },
        { "HTTP/1.1 404 Not Found\r\nConnection: close\r\n\r\nNot Found", "is it etcd 3.4" },
        { "HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n", "status 302" },
        { HTTP "{", "makes no sense" },
        { HTTP "[]", "the reply is not an object" },
        { HTTP "{}", "no header" },
        { HTTP "{\"header\":{\"revision\":\"-7\"}}", "revision" },
        { HTTP "{\"header\":{\"revision\":\"99999999999999999999\"}}", "revision" },
        { HTTP "{" HEADER ",\"kvs\":{}}", "kvs" },
        { HTTP "{" HEADER ",\"kvs\":[{\"key\":\"*\"}]}", "base64" },
        { HTTP "{" HEADER ",\"kvs\":[{\"key\":7}]}", "key" },
        { HTTP "{" HEADER ",\"kvs\":[{\"key\":\"bWVzaGZsb3cvYQ==\"}]}", "mod_revision" },
        { HTTP "{\"error\":\"etcdserver: user name is empty\",\"code\":3}", "user name is empty" },
    };
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    mf_store_options o = { .timeout_ns = 600000000 };
    socklen_t size = sizeof a;
    liar l = { .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
    char url[64];
    pthread_t thread;
    mf_store *s;

    T_TRUE(bind(l.fd, (struct sockaddr *)&a, size) == 0 && listen(l.fd, 16) == 0 &&
           getsockname(l.fd, (struct sockaddr *)&a, &size) == 0);
    (void)snprintf(url, sizeof url, "etcd://127.0.0.1:%d", ntohs(a.sin_port));
    s = etcd_store_open(url, &o);
    atomic_store(&l.says, "");
    T_EQ(pthread_create(&thread, NULL, lie, &l), 0);
    for (int i = 0; i < MF_COUNT(cases); i++) {
        mf_store_entries all;
        mf_status st;

        atomic_store(&l.says, cases[i].says);
        st = mf_store_list(s, "", &all);
        T_TRUE(st == MF_UNAVAILABLE || st == MF_DATA_LOSS || st == MF_INVALID_ARGUMENT);
        T_FAILS(st, cases[i].error, st);
        T_TRUE(mf_store_put(s, "a", "", 0, MF_STORE_NEW, 0, NULL) != MF_OK);
        T_TRUE(mf_store_lease_keep(s, 7) != MF_OK);
        T_TRUE(mf_store_wait(s, "", 0, store_in_ms(100)) != MF_OK);
    }
    mf_store_close(s);
    (void)shutdown(l.fd, SHUT_RDWR);
    T_EQ(pthread_join(thread, NULL), 0);
    (void)close(l.fd);
}

/* ---- TLS ---- */

static void write_text(const etcd_servers *s, const char *name, const char *text)
{
    char path[96];

    (void)snprintf(path, sizeof path, "%s/%s", s->dir, name);
    T_OK(mf_file_write(path, text, strlen(text)));
}

static void make_certificates(const etcd_servers *s, const char *ca_name, const char *cert_name,
                              const char *key_name)
{
    static const char *const hosts[] = { "127.0.0.1" };
    const int64_t now = mf_clock_wall_ns() / 1000000000;
    mf_certificate_options o = { .name = "test", .begin_s = now - 3600, .end_s = now + 3600 };
    const mf_certificates *c;
    mf_certificate ca, own;

    T_OK(mf_certificates_find(&c));
    T_OK(c->make(&o, NULL, &ca));
    o.hosts = hosts;
    o.n_hosts = 1;
    T_OK(c->make(&o, &ca, &own));
    write_text(s, ca_name, ca.cert);
    write_text(s, cert_name, own.cert);
    write_text(s, key_name, own.key);
    mf_free(ca.cert);
    mf_free(ca.key);
    mf_free(own.cert);
    mf_free(own.key);
}

MF_TEST_TIMEOUT(cluster_store_etcd_with_tls_knows_its_own_and_no_others, 180)
{
    char files[6][96];
    mf_store_options o = { 0 };
    mf_store_entries l;
    etcd_servers e = { .tls = true };
    mf_store *s;

    etcd_servers_name(&e, 1);
    make_certificates(&e, "ca.pem", "cert.pem", "key.pem");
    make_certificates(&e, "ca2.pem", "cert2.pem", "key2.pem");
    for (int i = 0; i < 6; i++)
        (void)snprintf(files[i], sizeof files[i], "%s/%s%s.pem", e.dir,
                       i % 3 == 0   ? "ca"
                       : i % 3 == 1 ? "cert"
                                    : "key",
                       i < 3 ? "" : "2");
    o.security = (mf_security){ .ca = files[0], .cert = files[1], .key = files[2] };
    etcd_server_start(&e, 0);
    etcd_servers_wait(&e, &o);
    s = etcd_store_open(e.url, &o);
    store_values_have_versions(s);
    mf_store_close(s);
    o.timeout_ns = 2000000000;
    o.security = (mf_security){ .ca = files[3], .cert = files[4], .key = files[5] };
    s = etcd_store_open(e.url, &o);
    T_FAILS(MF_UNAVAILABLE, "certificate", mf_store_list(s, "", &l)); /* we do not know it */
    mf_store_close(s);
    o.security = (mf_security){ .ca = files[0], .cert = files[4], .key = files[5] };
    s = etcd_store_open(e.url, &o);
    T_FAILS(MF_UNAVAILABLE, "https://", mf_store_list(s, "", &l)); /* it does not know us */
    mf_store_close(s);
    s = etcd_store_open(e.url, NULL);
    T_TRUE(mf_store_list(s, "", &l) != MF_OK); /* without TLS */
    mf_store_close(s);
    etcd_servers_end(&e);
}
