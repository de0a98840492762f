/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.h - opens plugins (<meshflow/plugin.h>). They are searched in the directories of
 * MESHFLOW_PLUGIN_PATH, and relative to the library or program in meshflow/, ../lib/meshflow/ and,
 * in a build tree, plugins/. */
#ifndef MF_BASE_PLUGIN_H
#define MF_BASE_PLUGIN_H

#include "base/status.h"

#include <meshflow/plugin.h>

/* A plugin and its purpose, for error messages. */
typedef struct mf_plugin_wanted {
    const char *name; /* "mpi-openmpi": the file is meshflow-mpi-openmpi.so */
    const char *what; /* "transport 'mpi'" */
    const char *build_package, *run_package; /* Debian packages: to build the plugin, to run it */
} mf_plugin_wanted;

/* Opened once, and never closed. Fails: NOT_FOUND naming file, directories and package;
 * FAILED_PRECONDITION: it cannot be used, and why. */
MF_MUST mf_status mf_plugin_get(const mf_plugin_wanted *wanted, const mf_plugin_v1 **out);

/* Functions with which plugins encode and decode frame headers (net/transport.h). */
typedef struct mf_plugin_frames {
    void (*write)(const struct mf_frame *f, unsigned char *bytes);
    int (*read)(const unsigned char *bytes, struct mf_frame *f);
} mf_plugin_frames;
/* Offer them to all plugins, including those already open. */
void mf_plugin_offer_frames(const mf_plugin_frames *frames);

/* Opens one file. */
MF_MUST mf_status mf_plugin_open_file(const char *path, const mf_plugin_wanted *wanted,
                                      const mf_plugin_v1 **out);

#endif
