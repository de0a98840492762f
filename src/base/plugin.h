/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.h - opening plugins (<meshflow/plugin.h>). They are looked for in the directories named in
 * MESHFLOW_PLUGIN_PATH, beside the library or program in meshflow/, ../lib/meshflow/ and, where
 * things are built, plugins/. */
#ifndef MF_BASE_PLUGIN_H
#define MF_BASE_PLUGIN_H

#include "base/status.h"

#include <meshflow/plugin.h>

/* What a plugin is needed for, for messages. */
typedef struct mf_plugin_wanted {
    const char *name; /* "mpi-openmpi": the file is meshflow-mpi-openmpi.so */
    const char *what; /* "transport 'mpi'" */
    const char *build_package, *run_package; /* Debian's: to build the plugin, to run it */
} mf_plugin_wanted;

/* Opened once, and never closed. NOT_FOUND naming file, directories and package;
 * FAILED_PRECONDITION: it cannot be used, and why. */
MF_MUST mf_status mf_plugin_get(const mf_plugin_wanted *wanted, const mf_plugin_v1 **out);

/* How plugins read and write the heads of frames (net/transport.h). */
typedef struct mf_plugin_frames {
    void (*write)(const struct mf_frame *f, unsigned char *bytes);
    int (*read)(const unsigned char *bytes, struct mf_frame *f);
} mf_plugin_frames;
/* Offered to plugins, those that are open already as well. */
void mf_plugin_offer_frames(const mf_plugin_frames *frames);

/* Opens one file. */
MF_MUST mf_status mf_plugin_open_file(const char *path, const mf_plugin_wanted *wanted,
                                      const mf_plugin_v1 **out);

#endif
