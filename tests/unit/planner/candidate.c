/* SPDX-License-Identifier: Apache-2.0 */
/* candidate.c - candidate layouts are made from layout rules and convert back to them. */
#include "mf_test.h"
#include "planner/search.h"

static const mf_plan_dims DIMS = { .n = 3, .name = { "batch", "hidden", "weights" } };

static mf_status candidate_of(const char *mesh, const char *layout, mf_candidate *out)
{
    mf_mesh_spec spec;

    MF_TRY(mf_mesh_spec_parse(mesh, layout, &spec));
    *out = (mf_candidate){ .mesh = spec.at[0] };
    return mf_candidate_take_rules(&DIMS, &spec.rules, out);
}

MF_TEST(candidate_layouts_round_trip)
{
    static const char *const layouts[] = { "", "batch:rows", "layers:cols;batch:rows;weights:rows",
                                           "batch:rows;batch:cols;hidden:cols" };

    for (int i = 0; i < MF_COUNT(layouts); i++) {
        mf_buf mesh = { 0 }, layout = { 0 }, same = { 0 };
        mf_candidate c;
        mf_mesh_spec spec;

        T_OK(candidate_of("rows:2;cols:3", layouts[i], &c));
        T_OK(mf_candidate_spec(&DIMS, &c, &spec));
        mf_mesh_spec_text(&spec, &mesh, &layout);
        mf_candidate_layout(&DIMS, &c, &same);
        T_STREQ(mesh.data, "rows:2;cols:3");
        T_STREQ(layout.data, layouts[i]);
        T_STREQ(same.data, layouts[i]);
        mf_buf_deinit(&mesh);
        mf_buf_deinit(&layout);
        mf_buf_deinit(&same);
    }
}

MF_TEST(candidate_rules_name_dimensions_and_axes_that_exist)
{
    mf_candidate c;

    T_FAILS(MF_INVALID_ARGUMENT, "no dimension 'height'; it has batch, hidden, weights",
            candidate_of("a:2", "height:a", &c));
    T_FAILS(MF_INVALID_ARGUMENT, "layout 'batch:b': the mesh has no axis 'b'",
            candidate_of("a:2", "batch:a;batch:b", &c));
}
