/* SPDX-License-Identifier: Apache-2.0 */
/* transport_registry.c - the available transports, and the selection for a job. */
#include "net/transport_registry.h"

#include "base/plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const mf_plugin_wanted grpc = { "grpc", "transport 'grpc'", "libgrpc-dev", "libgrpc29" };
static const mf_plugin_wanted certs = { "grpc", "making certificates", "libgrpc-dev", "libssl3" };
static const mf_plugin_wanted ucx = { "ucx", "transport 'ucx'", "libucx-dev", "libucx0" };
static const mf_plugin_wanted openmpi = { "mpi-openmpi", "transport 'mpi' under Open MPI",
                                          "libopenmpi-dev", "libopenmpi3" };
static const mf_plugin_wanted mpich = { "mpi-mpich", "transport 'mpi' under MPICH", "libmpich-dev",
                                        "libmpich12" };

static const char *const names[] = { "local", "grpc", "ucx", "mpi", NULL };

const char *mf_transport_name(int i)
{
    return i < MF_COUNT(names) ? names[i] : NULL;
}

/* The MPI implementation that started this process: the two are incompatible. Slurm's PMI works
 * with both. */
static mf_status choose_mpi(const mf_plugin_wanted **out)
{
    if (getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK")) {
        *out = &openmpi;
        return MF_OK;
    }
    *out = &mpich;
    if (!getenv("PMI_RANK") && !getenv("PMI_FD") && !getenv("PMI_PORT"))
        return MF_FAIL(MF_FAILED_PRECONDITION,
                       "transport 'mpi' needs MPI to start the tasks: mpirun -n 4 meshflow ... "
                       "(neither OMPI_COMM_WORLD_SIZE nor PMIX_RANK nor PMI_RANK is set)");
    return MF_OK;
}

static int read_frame(const unsigned char *bytes, mf_frame *f)
{
    return mf_frame_read(bytes, f);
}

static mf_status transport_registry_from_plugin(const mf_plugin_wanted *wanted, const char *name,
                                                const mf_transport_kind **out)
{
    static const mf_plugin_frames frames = { mf_frame_write, read_frame };
    const mf_plugin_v1 *p;

    mf_plugin_offer_frames(&frames);
    MF_TRY(mf_plugin_get(wanted, &p));
    for (int i = 0; p->transports && p->transports[i]; i++) {
        if (strcmp(p->transports[i]->name, name) == 0) {
            *out = p->transports[i];
            return MF_OK;
        }
    }
    return MF_FAIL(MF_FAILED_PRECONDITION, "plugin %s does not provide the transport '%s'", p->name,
                   name);
}

mf_status mf_transport_find(const char *name, const mf_transport_kind **out)
{
    const mf_plugin_wanted *mpi;

    *out = NULL;
    if (strcmp(name, "local") == 0) {
        *out = &mf_transport_local;
        return MF_OK;
    }
    if (strcmp(name, "grpc") == 0)
        return transport_registry_from_plugin(&grpc, name, out);
    if (strcmp(name, "ucx") == 0)
        return transport_registry_from_plugin(&ucx, name, out);
    if (strcmp(name, "mpi") == 0) {
        MF_TRY(choose_mpi(&mpi));
        return transport_registry_from_plugin(mpi, name, out);
    }
    return MF_FAIL(MF_INVALID_ARGUMENT, "unknown transport '%s': expected local, grpc, ucx or mpi",
                   name);
}

mf_status mf_certificates_find(const mf_certificates **out)
{
    const mf_plugin_v1 *p;

    *out = NULL;
    MF_TRY(mf_plugin_get(&certs, &p));
    if (!p->certificates)
        return MF_FAIL(MF_FAILED_PRECONDITION, "plugin %s does not provide certificates", p->name);
    *out = p->certificates;
    return MF_OK;
}

/* ---- by addresses ---- */

/* The host of "host:port" or "[host]:port"; an address without a port is a name on this host. */
static size_t host_of(const char *address, const char **host)
{
    const char *colon = strrchr(address, ':');

    *host = address;
    if (!colon)
        return 0;
    if (address[0] == '[') {
        *host = address + 1;
        return strcspn(address + 1, "]");
    }
    return (size_t)(colon - address);
}

static bool transport_registry_is_loopback(const char *host, size_t len)
{
    return (len == 9 && memcmp(host, "localhost", 9) == 0) ||
           (len > 4 && memcmp(host, "127.", 4) == 0) || (len == 3 && memcmp(host, "::1", 3) == 0);
}

bool mf_address_is_local(const char *address)
{
    const char *host;
    const size_t len = host_of(address, &host);

    return len == 0 || transport_registry_is_loopback(host, len);
}

mf_status mf_transport_choose(const char *const *addresses, int n, const mf_transport_kind **out)
{
    const char *first = NULL;
    size_t first_len = 0;
    bool same = true;

    for (int i = 0; i < n; i++) {
        const char *host = "";
        size_t len = 0;

        if (!addresses[i])
            continue;
        if (!mf_address_is_local(addresses[i]))
            len = host_of(addresses[i], &host);
        if (!first) {
            first = host;
            first_len = len;
        }
        same &= len == first_len && memcmp(host, first, len) == 0;
    }
    return mf_transport_find(same ? "local" : "grpc", out);
}
