/* SPDX-License-Identifier: Apache-2.0 */
/* mpi_plugin.h - what the plugin `mpi` offers. */
#ifndef MF_MPI_MPI_PLUGIN_H
#define MF_MPI_MPI_PLUGIN_H

#include "net/transport.h"

extern const mf_transport_kind mf_transport_mpi;

#endif
