/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_servers.h - real servers of etcd, on loopback, that end with the test. */
#ifndef MF_TEST_ETCD_SERVERS_H
#define MF_TEST_ETCD_SERVERS_H

#include "cluster/store/store.h"

#include <sys/types.h>

enum { SERVERS_MAX = 3 };

typedef struct etcd_servers {
    char dir[64], url[256];
    int n, client_port[SERVERS_MAX], peer_port[SERVERS_MAX];
    pid_t pid[SERVERS_MAX];
    bool tls;
} etcd_servers;

/* A free port; another process could still take it before the server does. */
int etcd_free_port(void);

/* Places and ports for n of them, and the address of a store there. Skips the test where there is
 * no etcd. */
void etcd_servers_name(etcd_servers *s, int n);
/* One of them, with TLS if s->tls and ca.pem, cert.pem and key.pem are in s->dir. */
void etcd_server_start(etcd_servers *s, int i);
/* Until they answer. */
void etcd_servers_wait(const etcd_servers *s, const mf_store_options *o);
/* All of it. */
void etcd_servers_start(etcd_servers *s, int n);
void etcd_servers_end(etcd_servers *s);

/* That must go well. */
mf_store *etcd_store_open(const char *url, const mf_store_options *o);

#endif
