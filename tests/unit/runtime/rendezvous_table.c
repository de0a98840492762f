/* SPDX-License-Identifier: Apache-2.0 */
/* rendezvous_table.c - where values of a step wait. */
#include "runtime/rendezvous_table.h"

#include "mf_test.h"

static mf_status fail_and_end(mf_rendezvous_tables *tables)
{
    const mf_status st = MF_FAIL(MF_UNAVAILABLE, "worker 2 is lost");

    mf_rendezvous_tables_end(tables, 7);
    return st;
}

MF_TEST(runtime_the_end_of_a_step_keeps_its_error)
{
    mf_rendezvous_tables *tables;
    mf_rendezvous_table *table;

    T_OK(mf_rendezvous_tables_new(&tables));
    T_OK(mf_rendezvous_tables_enter(tables, 7, &table));
    T_FAILS(MF_UNAVAILABLE, "worker 2 is lost", fail_and_end(tables));
    mf_rendezvous_table_leave(table);
    T_FAILS(MF_CANCELLED, "the step has ended", mf_rendezvous_tables_enter(tables, 7, &table));
    mf_rendezvous_tables_free(tables);
}
