/* SPDX-License-Identifier: Apache-2.0 */
/* task_table.c - the table of tasks, which is written only when an address changes. */
#include "tf_server/task_table.h"

#include "mf_test.h"

MF_TEST(server_tasks_with_unchanged_addresses_are_not_written)
{
    mf_server_tasks tasks;
    const char *before;

    T_OK(mf_server_tasks_list("{\"worker\": [\"a:0\", \"b:1\"]}", &tasks));
    before = tasks.all[1].address;
    T_OK(mf_server_tasks_move(&tasks, 1, "b:1"));
    T_TRUE(tasks.all[1].address == before);
    T_OK(mf_server_tasks_move(&tasks, 0, "a:7"));
    T_STREQ(tasks.all[0].address, "a:7");
    mf_server_tasks_deinit(&tasks);
}
