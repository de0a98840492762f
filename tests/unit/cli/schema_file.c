/* SPDX-License-Identifier: Apache-2.0 */
/* schema_file.c - files with the schema of a data set: round trips and damage. */
#include "cli/schema_file.h"

#include "mf_test.h"

#include <string.h>

static mf_status decode(const char *text, mf_arena *arena, mf_schema *out)
{
    json_t *root = json_loads(text, 0, NULL);
    mf_status st;

    T_TRUE(root != NULL);
    st = mf_schema_decode(root, arena, out);
    json_decref(root);
    return st;
}

MF_TEST(schema_file_round_trips)
{
    const char *const classes[] = { "no", "\"yes\"" }, *const fields[] = { "a", "b" };
    mf_schema_column columns[] = {
        { .is = { .name = "x", .dtype = MF_DTYPE_F32, .rank = 1, .dims = { 2 } },
          .fields = fields,
          .n_fields = 2 },
        { .is = { .name = "label", .dtype = MF_DTYPE_I32 },
          .is_label = true,
          .classes = 2,
          .class_names = classes },
    };
    const mf_schema schema = { columns, 2 };
    mf_arena *arena = mf_arena_new();
    mf_buf text = { 0 };
    mf_schema got;

    mf_schema_print(&schema, &text);
    T_OK(mf_buf_finish(&text));
    T_OK(decode(text.data, arena, &got));
    T_EQ(got.n, 2);
    T_STREQ(got.columns[0].fields[1], "b");
    T_EQ(got.columns[0].is.dims[0], 2);
    T_TRUE(got.columns[1].is_label && got.columns[1].classes == 2);
    T_STREQ(got.columns[1].class_names[1], "\"yes\"");
    mf_buf_deinit(&text);
    mf_arena_free(arena);
}

#define COLUMNS(text) "{\"version\": 1, \"columns\": [" text "]}"

MF_TEST(schema_file_that_is_damaged_is_refused)
{
    static const char *const wrong[][2] = {
        { "{\"columns\": []}", "the version is 0" },
        { "{\"version\": 2, \"columns\": []}", "the version is 2" },
        { COLUMNS(""), "is not a list of 1 to" },
        { COLUMNS("{\"name\": \"x\"}"), "no \"name\", \"type\" or \"role\"" },
        { COLUMNS("{\"name\": \"x\", \"type\": \"word\", \"role\": \"input\"}"),
          "the type 'word'" },
        { COLUMNS("{\"name\": \"x\", \"type\": \"float\", \"role\": \"input\", \"shape\": 3}"),
          "\"shape\" is not a list" },
        { COLUMNS("{\"name\": \"x\", \"type\": \"float\", \"role\": \"input\", \"shape\": [-1]}"),
          "not a number above 0" },
        { COLUMNS("{\"name\": \"x\", \"type\": \"float\", \"role\": \"input\", \"shape\": [2], "
                  "\"fields\": [\"a\"]}"),
          "has 1 names of fields" },
        { COLUMNS("{\"name\": \"y\", \"type\": \"int32\", \"role\": \"label\", \"shape\": [], "
                  "\"classes\": [1]}"),
          "a name is not a string" },
        { COLUMNS("{\"name\": \"y\", \"type\": \"int32\", \"role\": \"label\", \"shape\": [], "
                  "\"classes\": -3}"),
          "below 0" },
    };
    mf_schema got;

    for (int i = 0; i < MF_COUNT(wrong); i++) {
        mf_arena *arena = mf_arena_new();

        T_FAILS(MF_DATA_LOSS, wrong[i][1], decode(wrong[i][0], arena, &got));
        mf_arena_free(arena);
    }
}

MF_TEST(schema_file_may_have_unknown_keys)
{
    mf_arena *arena = mf_arena_new();
    mf_schema got;

    T_OK(decode("{\"version\": 1, \"made_by\": \"later\", \"columns\": [{\"name\": \"label\", "
                "\"role\": \"label\", \"type\": \"float\", \"shape\": [], \"kind\": \"number\", "
                "\"mean\": 3.5}]}",
                arena, &got));
    T_EQ(got.columns[0].classes, 0);
    mf_arena_free(arena);
}
