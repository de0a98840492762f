/* SPDX-License-Identifier: Apache-2.0 */
/* master.h - TensorFlow's MasterService: sessions of clients. */
#ifndef MF_SERVER_MASTER_H
#define MF_SERVER_MASTER_H

#include "proto/master.pb-c.h"
#include "server/server.h"

typedef struct mf_clients mf_clients;
typedef struct mf_client_session mf_client_session;

MF_MUST mf_status mf_clients_new(mf_server *server, mf_clients **out);
/* Ends all steps. */
void mf_clients_free(mf_clients *m);

/* Ended by one without a name. */
extern const mf_method mf_master_methods[];

/* ---- sessions (master.c) ---- */

/* With a reference, which mf_client_session_release() gives back. ABORTED: there is none. */
MF_MUST mf_status mf_clients_find(mf_clients *m, const char *handle, mf_client_session **out);
void mf_client_session_release(mf_client_session *s);

/* ---- runs (master_run.c) ---- */

MF_MUST mf_status mf_master_run_step(mf_request *r, const ProtobufCMessage *message);

struct mf_session;
struct mf_session *mf_client_session_of(mf_client_session *s);
/* Raised when it is closed: what has not begun yet shall not. */
mf_cancel *mf_client_session_closed(mf_client_session *s);
/* Of all runs that have no other; 0: none. */
int64_t mf_client_session_timeout_ms(const mf_client_session *s);

#endif
