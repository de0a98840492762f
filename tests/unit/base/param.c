/* SPDX-License-Identifier: Apache-2.0 */
/* param.c - tunables: defaults, the environment, and values set by the program. */
#include "base/param.h"

#include "mf_test.h"

#include <stdlib.h>
#include <string.h>

MF_PARAM_INT(pool_spin_rounds_of_a_test, 7, "declared here, so not in the library's table");

static const mf_param *find(const char *name)
{
    int n;
    mf_param *const *all = mf_params(&n);

    for (int i = 0; i < n; i++) {
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    }
    T_FAIL("no parameter %s", name);
}

MF_TEST(param_initially_has_its_default)
{
    T_EQ(MF_PARAM(pool_spin_rounds_of_a_test), 7);
    T_EQ(find("pool_spin_rounds")->value, find("pool_spin_rounds")->initial);
    T_STREQ(find("pool_spin_rounds")->source, "default");
}

MF_TEST(param_table_is_sorted_and_every_entry_has_help)
{
    int n;
    mf_param *const *all = mf_params(&n);

    T_TRUE(n >= 5);
    for (int i = 0; i < n; i++) {
        T_TRUE(strlen(all[i]->help) > 10);
        T_TRUE(i == 0 || strcmp(all[i - 1]->name, all[i]->name) < 0);
    }
}

MF_TEST(param_comes_from_the_environment)
{
    T_EQ(setenv("MESHFLOW_POOL_SPIN_ROUNDS", "12", 1), 0);
    mf_params_load();
    T_EQ(find("pool_spin_rounds")->value, 12);
    T_STREQ(find("pool_spin_rounds")->source, "environment");
}

MF_TEST(param_malformed_in_the_environment_is_ignored)
{
    T_EQ(setenv("MESHFLOW_POOL_SPIN_ROUNDS", "12x", 1), 0);
    T_EQ(setenv("MESHFLOW_BUFFER_CACHE_MIB", "99999999999999999999", 1), 0);
    T_EQ(setenv("MESHFLOW_SESSION_CACHE_RUNS", "", 1), 0);
    mf_params_load();
    T_STREQ(find("pool_spin_rounds")->source, "default");
    T_STREQ(find("buffer_cache_mib")->source, "default");
    T_STREQ(find("session_cache_runs")->source, "default");
}

MF_TEST(param_set_overrides_the_environment_and_names_errors)
{
    T_EQ(setenv("MESHFLOW_POOL_SPIN_ROUNDS", "12", 1), 0);
    T_OK(mf_param_set("pool_spin_rounds=13"));
    T_EQ(find("pool_spin_rounds")->value, 13);
    T_FAILS(MF_INVALID_ARGUMENT, "unknown parameter 'pool_spin'", mf_param_set("pool_spin=1"));
    T_FAILS(MF_INVALID_ARGUMENT, "whole number", mf_param_set("pool_spin_rounds=-1"));
    T_FAILS(MF_INVALID_ARGUMENT, "whole number", mf_param_set("pool_spin_rounds"));
}

MF_TEST(param_values_below_the_minimum_are_refused)
{
    T_FAILS(MF_INVALID_ARGUMENT, "a whole number of at least 100, not 'lease_ms=99'",
            mf_param_set("lease_ms=99"));
    T_OK(mf_param_set("lease_ms=100"));
}
