/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_options.c - see mesh_options.h. */
#include "cli/mesh_options.h"

mf_status mf_mesh_options_write(mf_args *args, const char *mesh, const char *layout, mf_buf *out)
{
    const char *stages = mf_args_value(args, "stages");

    if (!mesh && (layout || stages || mf_args_has(args, "exact") || mf_args_has(args, "balance")))
        return mf_args_wrong(
            args, "--layout, --stages, --exact and --balance need --mesh: \"rows:2;cols:2\"");
    if (!mesh)
        return MF_OK;
    mf_buf_printf(out, "mesh axes='%s' layout='%s' exact=%s", mesh, layout ? layout : "",
                  mf_args_has(args, "exact") ? "true" : "false");
    if (stages)
        mf_buf_printf(out, " stages='%s'", stages);
    if (mf_args_has(args, "balance"))
        mf_buf_str(out, " balance=true");
    return mf_buf_finish(out);
}
