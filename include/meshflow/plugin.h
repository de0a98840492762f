/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.h - the plugin interface. A plugin is a shared object, meshflow-NAME.so, that exports one
 * function, mf_plugin_open_v1(). It is loaded on first use.
 *
 * A plugin does not link against Meshflow: it calls only the functions of the table it is given. It
 * offers vtables that are declared in the sources (src/net/transport.h, src/cluster/store/store.h)
 * and may change. MF_PLUGIN_ABI counts these changes; a plugin built for another number is refused.
 */
#ifndef MESHFLOW_PLUGIN_H
#define MESHFLOW_PLUGIN_H

#include <meshflow/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { MF_PLUGIN_ABI = 7 };

struct mf_frame;
struct mf_transport_kind;
struct mf_certificates;
struct mf_store_kind;
struct mf_rpc_kind;

/* The functions that Meshflow offers to a plugin. Valid until the process ends. Thread: any. */
typedef struct mf_plugin_host {
    uint32_t abi; /* MF_PLUGIN_ABI */
    uint32_t size; /* sizeof this struct */
    /* Zeroed memory for count objects, or NULL. */
    void *(*allocate)(int64_t count, size_t size);
    void (*release)(void *p);
    /* Monotonic clock. */
    int64_t (*clock_ns)(void);
    /* Record a new failure in the calling thread; returns code. */
    mf_status (*fail)(mf_status code, const char *file, int line, const char *function,
                      const char *message);
    /* Add this place to the trace of the failure; returns code. */
    mf_status (*passed)(mf_status code, const char *file, int line, const char *function);
    /* The message of the calling thread's newest failure. */
    const char *(*message)(void);
    /* level: 0 debug, 1 information, 2 warning, 3 error. */
    void (*log)(int level, const char *file, int line, const char *message);
    /* Encode and decode the header of a message on the wire. frame_read returns 0 if the bytes are
     * not a header. */
    void (*frame_write)(const struct mf_frame *f, unsigned char *bytes);
    int (*frame_read)(const unsigned char *bytes, struct mf_frame *f);
} mf_plugin_host;

typedef struct mf_plugin_v1 {
    uint32_t abi; /* MF_PLUGIN_ABI */
    uint32_t size; /* sizeof this struct: fields beyond it do not exist */
    const char *name; /* "grpc" */
    const char *about;
    const struct mf_transport_kind *const *transports; /* NULL-terminated; or NULL */
    const struct mf_certificates *certificates; /* or NULL */
    const struct mf_store_kind *const *stores; /* NULL-terminated; or NULL */
    const struct mf_rpc_kind *rpc; /* or NULL */
} mf_plugin_v1;

/* The exported function: keeps host and returns the plugin's table. Called once. */
typedef const mf_plugin_v1 *mf_plugin_open_fn(const mf_plugin_host *host);
MF_API const mf_plugin_v1 *mf_plugin_open_v1(const mf_plugin_host *host);

#ifdef __cplusplus
}
#endif
#endif
