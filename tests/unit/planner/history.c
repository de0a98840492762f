/* SPDX-License-Identifier: Apache-2.0 */
/* history.c - corrections of predictions by measured steps of earlier trainings. */
#include "planner/history.h"

#include "mf_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

MF_TEST(a_prediction_is_corrected_by_runs_of_its_layout_and_half_by_others)
{
    mf_history h = { 0 };

    T_NEAR(mf_history_factor(&h, "mlp 32", "a"), 1, 0);
    T_OK(mf_history_add(&h, "mlp 32", "a", 2.25));
    T_NEAR(mf_history_factor(&h, "mlp 32", "a"), 2.25, 1e-12);
    T_NEAR(mf_history_factor(&h, "mlp 32", "b"), 1.5, 1e-12);
    T_NEAR(mf_history_factor(&h, "mlp 64", "a"), 1, 0);
    T_OK(mf_history_add(&h, "mlp 32", "a", 1));
    T_NEAR(mf_history_factor(&h, "mlp 32", "a"), 1.5, 1e-12);
    T_OK(mf_history_add(&h, "mlp 32", "b", 100)); /* implausible: clamped */
    T_NEAR(mf_history_factor(&h, "mlp 32", "b"), 4, 1e-12);
    mf_history_deinit(&h);
}

MF_TEST(a_history_round_trips)
{
    char folder[] = "/tmp/mf_historyXXXXXX", path[128], own[64];
    mf_history h = { 0 }, read;

    T_TRUE(mkdtemp(folder) != NULL);
    (void)snprintf(own, sizeof own, "%s/own", folder);
    (void)snprintf(path, sizeof path, "%s/planner", own);
    T_OK(mf_history_read(path, &read)); /* there is none */
    T_EQ(read.n, 0);
    T_OK(mf_history_add(&h, "mlp units=[8] 32", "all:2 batch:all 1", 1.25));
    T_OK(mf_history_add(&h, "a\tb", "c", 2)); /* cannot be kept */
    T_OK(mf_history_write(&h, path));
    T_OK(mf_history_read(path, &read));
    T_EQ(read.n, 1);
    T_NEAR(mf_history_factor(&read, "mlp units=[8] 32", "all:2 batch:all 1"), 1.25, 1e-4);
    mf_history_deinit(&read);
    mf_history_deinit(&h);
    T_EQ(unlink(path), 0);
    T_EQ(rmdir(own), 0);
    T_EQ(rmdir(folder), 0);
}
