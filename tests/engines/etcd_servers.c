/* SPDX-License-Identifier: Apache-2.0 */
#include "engines/etcd_servers.h"

#include "base/clock.h"
#include "mf_test.h"
#include "unit/cluster/store/store_conform.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { START_MS = 60000 };

int etcd_free_port(void)
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof a;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    T_TRUE(fd >= 0 && bind(fd, (struct sockaddr *)&a, size) == 0 &&
           getsockname(fd, (struct sockaddr *)&a, &size) == 0);
    (void)close(fd);
    return ntohs(a.sin_port);
}

static void run_server(const etcd_servers *s, int i)
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

void etcd_server_start(etcd_servers *s, int i)
{
    s->pid[i] = fork();
    if (s->pid[i] == 0)
        run_server(s, i);
}

mf_store *etcd_store_open(const char *url, const mf_store_options *o)
{
    mf_store *s;

    T_OK(mf_store_open(url, o, &s));
    return s;
}

void etcd_servers_wait(const etcd_servers *s, const mf_store_options *o)
{
    const int64_t until = store_in_ms(START_MS);
    mf_store *store = etcd_store_open(s->url, o);
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

void etcd_servers_name(etcd_servers *s, int n)
{
    size_t at = (size_t)snprintf(s->url, sizeof s->url, "etcd://");

    if (system("command -v etcd >/dev/null") != 0)
        T_SKIP("there is no etcd; the package is etcd-server");
    s->n = n;
    (void)strcpy(s->dir, "/tmp/meshflow-etcd-XXXXXX");
    T_TRUE(mkdtemp(s->dir) != NULL);
    for (int i = 0; i < n; i++) {
        s->client_port[i] = etcd_free_port();
        s->peer_port[i] = etcd_free_port();
        at += (size_t)snprintf(s->url + at, sizeof s->url - at, "%s127.0.0.1:%d", i > 0 ? "," : "",
                               s->client_port[i]);
    }
    (void)snprintf(s->url + at, sizeof s->url - at, "/jobs/test");
}

void etcd_servers_start(etcd_servers *s, int n)
{
    etcd_servers_name(s, n);
    for (int i = 0; i < n; i++)
        etcd_server_start(s, i);
    etcd_servers_wait(s, NULL);
}

void etcd_servers_end(etcd_servers *s)
{
    char command[128];

    for (int i = 0; i < s->n; i++) {
        (void)kill(s->pid[i], SIGKILL);
        (void)waitpid(s->pid[i], NULL, 0);
    }
    (void)snprintf(command, sizeof command, "rm -r '%s'", s->dir);
    T_EQ(system(command), 0);
}
