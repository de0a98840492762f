/* SPDX-License-Identifier: Apache-2.0 */
/* etcd.c - a store in etcd, with real servers: alone, three of which one is killed or stopped, with
 * TLS, and servers that talk nonsense. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "comm/transports.h"
#include "mf_test.h"
#include "unit/cluster/store_conform.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SERVERS_MAX = 3, START_MS = 60000, LONG_MS = 60000 };

/* ---- servers ---- */

typedef struct servers {
    char dir[64], url[256];
    int n, client_port[SERVERS_MAX], peer_port[SERVERS_MAX];
    pid_t pid[SERVERS_MAX];
    bool tls;
} servers;

/* One that nobody else has; it is free again until the server takes it. */
static int free_port(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof a;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    T_TRUE(fd >= 0 && bind(fd, (struct sockaddr *)&a, size) == 0 &&
           getsockname(fd, (struct sockaddr *)&a, &size) == 0);
    (void)close(fd);
    return ntohs(a.sin_port);
}

static void run_server(const servers *s, int i)
{
    char name[16], data[96], log[96], client[64], peer[64], cluster[256] = "";
    char ca[96], cert[96], key[96];
    size_t at = 0;

    for (int k = 0; k < s->n; k++)
        at += (size_t)snprintf(cluster + at, sizeof cluster - at, "%sn%d=http://127.0.0.1:%d",
                               k > 0 ? "," : "", k, s->peer_port[k]);
    (void)snprintf(name, sizeof name, "n%d", i);
    (void)snprintf(data, sizeof data, "%s/n%d", s->dir, i);
    (void)snprintf(log, sizeof log, "%s/n%d.log", s->dir, i);
    (void)snprintf(client, sizeof client, "%s://127.0.0.1:%d", s->tls ? "https" : "http",
                   s->client_port[i]);
    (void)snprintf(peer, sizeof peer, "http://127.0.0.1:%d", s->peer_port[i]);
    (void)snprintf(ca, sizeof ca, "%s/ca.pem", s->dir);
    (void)snprintf(cert, sizeof cert, "%s/cert.pem", s->dir);
    (void)snprintf(key, sizeof key, "%s/key.pem", s->dir);
    char *const command[] = { "etcd",
                              "--name",
                              name,
                              "--data-dir",
                              data,
                              "--listen-client-urls",
                              client,
                              "--advertise-client-urls",
                              client,
                              "--listen-peer-urls",
                              peer,
                              "--initial-advertise-peer-urls",
                              peer,
                              "--initial-cluster",
                              cluster,
                              "--unsafe-no-fsync",
                              s->tls ? "--client-cert-auth" : NULL,
                              "--trusted-ca-file",
                              ca,
                              "--cert-file",
                              cert,
                              "--key-file",
                              key,
                              NULL };
    const int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(out, STDERR_FILENO);
    (void)execvp(command[0], command);
    _exit(127);
}

static void start(servers *s, int i)
{
    s->pid[i] = fork();
    if (s->pid[i] == 0)
        run_server(s, i);
}

static mf_store *open_store(const char *url, const mf_store_options *o)
{
    mf_store *s;

    T_OK(mf_store_open(url, o, &s));
    return s;
}

/* They answer. */
static void wait_for_servers(const servers *s, const mf_store_options *o)
{
    const int64_t until = store_in_ms(START_MS);
    mf_store *store = open_store(s->url, o);
    mf_store_entries l = { 0 };
    mf_status st;

    do {
        st = mf_store_list(store, "", &l);
        mf_store_entries_deinit(&l);
        for (int i = 0; i < s->n; i++)
            T_EQ(waitpid(s->pid[i], NULL, WNOHANG), 0); /* it has not ended */
    } while (st != MF_OK && mf_clock_ns() < until);
    T_OK(st);
    mf_store_close(store);
}

static void name_servers(servers *s, int n)
{
    size_t at = (size_t)snprintf(s->url, sizeof s->url, "etcd://");

    if (system("command -v etcd >/dev/null") != 0)
        T_SKIP("there is no etcd; the package is etcd-server");
    s->n = n;
    (void)strcpy(s->dir, "/tmp/meshflow-etcd-XXXXXX");
    T_TRUE(mkdtemp(s->dir) != NULL);
    for (int i = 0; i < n; i++) {
        s->client_port[i] = free_port();
        s->peer_port[i] = free_port();
        at += (size_t)snprintf(s->url + at, sizeof s->url - at, "%s127.0.0.1:%d", i > 0 ? "," : "",
                               s->client_port[i]);
    }
    (void)snprintf(s->url + at, sizeof s->url - at, "/jobs/test");
}

static void start_all(servers *s, int n)
{
    name_servers(s, n);
    for (int i = 0; i < n; i++)
        start(s, i);
    wait_for_servers(s, NULL);
}

static void end_all(servers *s)
{
    char command[128];

    for (int i = 0; i < s->n; i++) {
        (void)kill(s->pid[i], SIGKILL);
        (void)waitpid(s->pid[i], NULL, 0);
    }
    (void)snprintf(command, sizeof command, "rm -r '%s'", s->dir);
    T_EQ(system(command), 0);
}

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
    servers e = { 0 };
    char url[300];

    start_all(&e, 1);
    for (int i = 0; i < MF_COUNT(checks); i++) {
        mf_store *s;

        (void)snprintf(url, sizeof url, "%s/%d", e.url, i);
        s = open_store(url, NULL);
        checks[i](s);
        mf_store_close(s);
    }
    store_threads_count(e.url, 4, 20);
    end_all(&e);
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
    servers e = { 0 };
    mf_store *s;

    start_all(&e, 1);
    s = open_store(e.url, NULL);
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
    end_all(&e);
}

/* ---- several servers ---- */

typedef struct toil {
    const char *url;
    atomic_bool stop;
    atomic_int wins, unknown;
} toil;

/* Counts; what is not known to have been done is looked at by the next turn. */
static void *count(void *arg)
{
    toil *t = arg;
    mf_store *s = open_store(t->url, NULL);

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

MF_TEST_TIMEOUT(cluster_store_etcd_goes_on_when_one_of_three_is_killed_or_stopped, 300)
{
    toil t = { 0 };
    mf_store_entry entry;
    pthread_t threads[3];
    servers e = { 0 };
    mf_store *s;
    int64_t number, lease;

    start_all(&e, 3);
    t.url = e.url;
    s = open_store(e.url, NULL);
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
        start(&e, i);
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
    end_all(&e);
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

MF_TEST_TIMEOUT(cluster_store_etcd_watch_goes_on_at_another_server, 180)
{
    servers e = { 0 };
    mf_store_entries l;
    put_later p;
    pthread_t thread;
    mf_store *s;

    start_all(&e, 3);
    s = open_store(e.url, NULL);
    T_OK(mf_store_list(s, "", &l));
    p = (put_later){ s, e.pid[0] }; /* the first one is asked first */
    T_EQ(pthread_create(&thread, NULL, kill_then_put, &p), 0);
    T_OK(mf_store_wait(s, "w/", l.revision, store_in_ms(LONG_MS)));
    T_EQ(pthread_join(thread, NULL), 0);
    mf_store_entries_deinit(&l);
    mf_store_close(s);
    end_all(&e);
}

/* ---- nobody, strangers and nonsense ---- */

MF_TEST(cluster_store_etcd_that_is_not_there_is_named)
{
    mf_store_options o = { .timeout_ns = 700000000 };
    mf_store_entries l;
    char url[128];
    mf_store *s;
    int64_t lease;

    (void)snprintf(url, sizeof url, "etcd://127.0.0.1:%d,127.0.0.1:%d", free_port(), free_port());
    s = open_store(url, &o);
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
    T_FAILS(MF_INVALID_ARGUMENT, "the certificate is not given",
            mf_store_open("etcd://192.0.2.1:1", &o, &s));
    o.security = (mf_security){ "/nowhere/ca.pem", "/nowhere/cert.pem", "/nowhere/key.pem", 0, 0 };
    T_FAILS(MF_NOT_FOUND, "/nowhere/ca.pem", mf_store_open("etcd://192.0.2.1:1", &o, &s));
}

/* A server that says the same to everybody. */
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
        { HTTP "[]", "it is no object" },
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
    s = open_store(url, &o);
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

static void write_text(const servers *s, const char *name, const char *text)
{
    char path[96];

    (void)snprintf(path, sizeof path, "%s/%s", s->dir, name);
    T_OK(mf_file_write(path, text, strlen(text)));
}

static void make_certificates(const servers *s, const char *ca_name, const char *cert_name,
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
    servers e = { .tls = true };
    mf_store *s;

    name_servers(&e, 1);
    make_certificates(&e, "ca.pem", "cert.pem", "key.pem");
    make_certificates(&e, "ca2.pem", "cert2.pem", "key2.pem");
    for (int i = 0; i < 6; i++)
        (void)snprintf(files[i], sizeof files[i], "%s/%s%s.pem", e.dir,
                       i % 3 == 0   ? "ca"
                       : i % 3 == 1 ? "cert"
                                    : "key",
                       i < 3 ? "" : "2");
    o.security = (mf_security){ .ca = files[0], .cert = files[1], .key = files[2] };
    start(&e, 0);
    wait_for_servers(&e, &o);
    s = open_store(e.url, &o);
    store_values_have_versions(s);
    mf_store_close(s);
    o.timeout_ns = 2000000000;
    o.security = (mf_security){ .ca = files[3], .cert = files[4], .key = files[5] };
    s = open_store(e.url, &o);
    T_FAILS(MF_UNAVAILABLE, "certificate", mf_store_list(s, "", &l)); /* we do not know it */
    mf_store_close(s);
    o.security = (mf_security){ .ca = files[0], .cert = files[4], .key = files[5] };
    s = open_store(e.url, &o);
    T_FAILS(MF_UNAVAILABLE, "https://", mf_store_list(s, "", &l)); /* it does not know us */
    mf_store_close(s);
    s = open_store(e.url, NULL);
    T_TRUE(mf_store_list(s, "", &l) != MF_OK); /* without TLS */
    mf_store_close(s);
    end_all(&e);
}
