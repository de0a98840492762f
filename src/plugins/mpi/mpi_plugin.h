/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_plugin.h - the interfaces of the plugin `mpi`. */
#ifndef MF_MPI_MPI_PLUGIN_H
#define MF_MPI_MPI_PLUGIN_H

#include "net/transport.h"

extern const mf_transport_kind mf_transport_mpi;

#endif
