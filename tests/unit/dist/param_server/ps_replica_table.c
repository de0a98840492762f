/* SPDX-License-Identifier: Apache-2.0 */
#include "dist/param_server/ps_replica_table.h"

#include "mf_test.h"

#include <string.h>

static mf_ps_copy_of copy_of(int64_t step)
{
    return (mf_ps_copy_of){ .generation = 3, .slices = 2, .slice = 1, .step = step };
}

MF_TEST(servers_see_the_steps_of_areas_that_their_owner_writes)
{
    const mf_ps_copy_of any = copy_of(0), old = copy_of(7), new = copy_of(8);
    mf_ps_replica_table table = { 0 };
    mf_ps_area_step of[2];
    mf_buffer *areas[2];
    mf_buf list = { 0 };
    size_t size = 0;

    for (int i = 0; i < 2; i++) {
        atomic_init(&of[i].step, MF_PS_NO_COPY);
        T_OK(mf_buffer_new(MF_DTYPE_U8, 100, &areas[i]));
        T_OK(mf_ps_replica_table_watch(&table, &any, &of[i], areas[i], 100));
    }
    mf_ps_replica_table_list(&table, &list);
    T_EQ(list.len, 0); /* nothing has been written */
    T_EQ(mf_ps_replica_table_last(&table, 3, 1), MF_PS_NO_COPY);
    atomic_store(&of[0].step, 7);
    T_TRUE(mf_ps_replica_table_find(&table, &old, &size) == areas[0]->data && size == 100);
    atomic_store(&of[1].step, 8);
    T_EQ(mf_ps_replica_table_last(&table, 3, 1), 8);
    T_EQ(mf_ps_replica_table_last(&table, 3, 0), MF_PS_NO_COPY);
    T_EQ(mf_ps_replica_table_last(&table, 2, 1), MF_PS_NO_COPY);
    atomic_store(&of[0].step, MF_PS_NO_COPY); /* its owner writes the next copy */
    T_TRUE(!mf_ps_replica_table_find(&table, &old, &size));
    T_TRUE(mf_ps_replica_table_find(&table, &new, &size) == areas[1]->data);
    mf_ps_replica_table_list(&table, &list);
    T_EQ(list.len, sizeof new);
    T_TRUE(memcmp(list.data, &new, sizeof new) == 0);
    mf_ps_replica_table_forget_before(&table, 4);
    T_TRUE(!mf_ps_replica_table_find(&table, &new, &size));
    T_TRUE(mf_buffer_is_sole(areas[0]) && mf_buffer_is_sole(areas[1]));
    mf_buf_deinit(&list);
    mf_ps_replica_table_deinit(&table);
    for (int i = 0; i < 2; i++)
        mf_buffer_unref(areas[i]);
}
