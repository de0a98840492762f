/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_version.c - `meshflow version`: versions of the build. */
#include "base/machine_limits.h"
#include "cli/command.h"
#include "graph/op.h"

#include <meshflow/version.h>

#include <protobuf-c/protobuf-c.h>
#include <sleef.h>
#include <zip.h>

#if defined(__clang__)
#define COMPILER "clang " __clang_version__
#else
#define COMPILER "gcc " __VERSION__
#endif

void mf_cli_version(mf_buf *out)
{
    mf_buf_printf(out, "meshflow %s\n", mf_version());
    mf_buf_printf(out, "built by %s, %s%s%s\n", COMPILER, MF_BUILD,
                  MF_SANITIZERS[0] ? ", sanitizers: " : "", MF_SANITIZERS);
    mf_buf_printf(out, "kernels for %s; in use: %s; %d cores\n", mf_isa_available_text(),
                  mf_isa_name(mf_isa_limit()), mf_usable_cores());
    mf_buf_printf(out, "numerics class: %s; of bf16: %s\n", mf_numerics_class(false),
                  mf_numerics_class(true));
    mf_buf_printf(out, "SLEEF %d.%d.%d, protobuf-c %s, libzip %s\n", SLEEF_VERSION_MAJOR,
                  SLEEF_VERSION_MINOR, SLEEF_VERSION_PATCHLEVEL, protobuf_c_version(),
                  zip_libzip_version());
}

static mf_status version_run(mf_args *args)
{
    mf_buf text = { 0 };

    (void)args;
    mf_cli_version(&text);
    return mf_cli_print(&text);
}

const mf_command mf_command_version = {
    .name = "version",
    .arguments = "",
    .summary = "show versions of program, compiler and libraries",
    .about = "",
    .run = version_run,
};
