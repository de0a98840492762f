/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.h - what a plugin is: a shared object, meshflow-NAME.so, that exports one function,
 * mf_plugin_open_v1(), and is opened when something of it is asked for.
 *
 * A plugin links against nothing of Meshflow: all it may call is in the table it is given. What it
 * offers are vtables that are declared in the sources (src/net/transport.h,
 * src/cluster/store/store.h) and may change; MF_PLUGIN_ABI counts the changes, and a plugin that
 * was built for another number is refused. */
#ifndef MESHFLOW_PLUGIN_H
#define MESHFLOW_PLUGIN_H

#include <meshflow/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MF_PLUGIN_ABI = 6 };

struct mf_frame;
struct mf_transport_kind;
struct mf_certificates;
struct mf_store_kind;
struct mf_rpc_kind;

/* What Meshflow offers to a plugin, for as long as the process lives. Thread: any. */
typedef struct mf_plugin_host {
    uint32_t abi; /* MF_PLUGIN_ABI */
    uint32_t size; /* of this struct */
    /* Zeroed memory for count objects, or NULL. */
    void *(*allocate)(int64_t count, size_t size);
    void (*release)(void *p);
    /* Monotonic. */
    int64_t (*clock_ns)(void);
    /* A new failure of the calling thread; returns code. */
    mf_status (*fail)(mf_status code, const char *file, int line, const char *function,
                      const char *message);
    /* It passes through here; returns code. */
    mf_status (*passed)(mf_status code, const char *file, int line, const char *function);
    /* Its sentence. */
    const char *(*message)(void);
    /* level: 0 debug, 1 information, 2 warning, 3 error. */
    void (*log)(int level, const char *file, int line, const char *message);
    /* The head of a message on the wire; read: 0 if the bytes are none. */
    void (*frame_write)(const struct mf_frame *f, unsigned char *bytes);
    int (*frame_read)(const unsigned char *bytes, struct mf_frame *f);
} mf_plugin_host;

typedef struct mf_plugin_v1 {
    uint32_t abi; /* MF_PLUGIN_ABI */
    uint32_t size; /* of this struct: what is behind it is not there */
    const char *name; /* "grpc" */
    const char *about;
    const struct mf_transport_kind *const *transports; /* ended by NULL; or NULL */
    const struct mf_certificates *certificates; /* or NULL */
    const struct mf_store_kind *const *stores; /* ended by NULL; or NULL */
    const struct mf_rpc_kind *rpc; /* or NULL */
} mf_plugin_v1;

/* The one exported function: keeps host, returns what the plugin offers. Called once. */
typedef const mf_plugin_v1 *mf_plugin_open_fn(const mf_plugin_host *host);
MF_API const mf_plugin_v1 *mf_plugin_open_v1(const mf_plugin_host *host);

#ifdef __cplusplus
}
#endif
#endif
