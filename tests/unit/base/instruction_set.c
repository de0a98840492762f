/* SPDX-License-Identifier: Apache-2.0 */
#include "base/instruction_set.h"

#include "graph/op.h"
#include "mf_test.h"

#include <meshflow/meshflow.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *base_name(void)
{
    return mf_isa_is_available(MF_ISA_BASE) ? mf_isa_name(MF_ISA_BASE) : "";
}

MF_TEST(instruction_set_is_the_best_of_the_processor)
{
    T_EQ(mf_isa_limit(), mf_isa_best());
    T_EQ(mf_isa_chosen(), mf_isa_best());
    T_TRUE(strstr(mf_isa_available_text(), mf_isa_name(mf_isa_best())) != NULL);
}

MF_TEST(instruction_set_can_be_pinned_until_a_kernel_is_prepared)
{
    char want[100];

    T_OK(mf_numerics_pin(mf_isa_name(mf_isa_best())));
    T_OK(mf_numerics_pin(base_name()));
    T_EQ(mf_isa_chosen(), MF_ISA_BASE);
    T_OK(mf_numerics_pin(base_name())); /* no change */
    if (mf_isa_best() == MF_ISA_BASE)
        return;
    (void)snprintf(want, sizeof want, "kernels of instruction set %s are in use", base_name());
    T_FAILS(MF_FAILED_PRECONDITION, want, mf_numerics_pin(mf_isa_name(mf_isa_best())));
    T_EQ(mf_isa_chosen(), MF_ISA_BASE);
}

MF_TEST(instruction_set_that_is_unknown_or_absent_is_an_error_with_those_of_the_machine)
{
    T_FAILS(MF_INVALID_ARGUMENT, "unknown instruction set 'sse9'", mf_numerics_pin("sse9"));
    T_FAILS(MF_INVALID_ARGUMENT, mf_isa_available_text(), mf_numerics_pin("sse9"));
    T_FAILS(MF_INVALID_ARGUMENT, mf_isa_available_text(), mf_numerics_pin(""));
    T_FAILS(MF_INVALID_ARGUMENT, mf_isa_available_text(), mf_numerics_pin(NULL));
    for (int i = 0; i < MF_ISA_COUNT; i++) {
        if (!mf_isa_is_available((mf_isa)i))
            T_FAILS(MF_INVALID_ARGUMENT, "is not available; this machine and this build have: ",
                    mf_numerics_pin(mf_isa_name((mf_isa)i)));
    }
}

MF_TEST(instruction_set_comes_from_the_environment)
{
    T_EQ(setenv("MESHFLOW_NUMERICS", base_name(), 1), 0);
    T_OK(mf_isa_check());
    T_EQ(mf_isa_chosen(), MF_ISA_BASE);
}

MF_TEST(instruction_set_of_the_environment_yields_to_the_pinned_one)
{
    T_EQ(setenv("MESHFLOW_NUMERICS", base_name(), 1), 0);
    T_OK(mf_numerics_pin(mf_isa_name(mf_isa_best())));
    T_OK(mf_isa_check());
    T_EQ(mf_isa_chosen(), mf_isa_best());
}

MF_TEST(instruction_set_of_the_environment_that_is_unknown_fails_the_first_session)
{
    mf_graph *g;
    mf_session *s = NULL;

    T_EQ(setenv("MESHFLOW_NUMERICS", "sse9", 1), 0);
    T_OK(mf_graph_new(&g));
    T_FAILS(MF_INVALID_ARGUMENT, "MESHFLOW_NUMERICS: unknown instruction set 'sse9'",
            mf_session_new(g, NULL, &s));
    mf_graph_free(g);
}

MF_TEST(instruction_set_can_be_lowered_to_the_bits_of_another_task)
{
    for (int bits = MF_ISA_COUNT - 1; bits >= 0; bits--) {
        if (mf_isa_bits((mf_isa)bits) != (mf_isa)bits)
            continue;
        T_TRUE(mf_isa_chosen() <= mf_isa_best());
        mf_isa_lower((mf_isa)bits);
        T_TRUE(mf_isa_is_available(mf_isa_limit()));
        T_TRUE(mf_isa_bits(mf_isa_limit()) <= (mf_isa)bits);
        T_EQ(mf_isa_chosen(), mf_isa_limit());
    }
    if (mf_isa_is_available(MF_ISA_AVX512)) /* the best of those with the bits of the baseline */
        T_EQ(mf_isa_limit(), MF_ISA_AVX512);
}

MF_TEST(numerics_class_of_float32_is_one_and_of_bfloat16_that_of_the_bits)
{
    for (int i = 0; i < MF_ISA_COUNT; i++) {
        const mf_isa isa = (mf_isa)i;

        T_STREQ(mf_numerics_class_of(isa, false), mf_numerics_class_of(MF_ISA_BASE, false));
        T_STREQ(mf_numerics_class_of(isa, true), mf_numerics_class_of(mf_isa_bits(isa), true));
        T_EQ(strcmp(mf_numerics_class_of(isa, true), mf_numerics_class_of(isa, false)) == 0,
             mf_isa_bits(isa) == MF_ISA_BASE);
    }
}

MF_TEST(instruction_set_chooses_the_record_of_an_op)
{
    const mf_op *op = mf_op_find("Add");
    const mf_kernel_def *const *kernels = mf_op_kernels(op);

    T_TRUE(kernels[MF_ISA_BASE] == &op->kernel);
    mf_isa_switch(MF_ISA_BASE);
    T_TRUE(mf_kernel_of(op) == &op->kernel);
    for (int i = MF_ISA_AVX512; i < MF_ISA_COUNT; i++) {
        if (!mf_isa_is_available((mf_isa)i))
            continue;
        mf_isa_switch((mf_isa)i);
        T_TRUE(mf_kernel_of(op) == kernels[i]);
        T_TRUE(mf_kernel_of(op) != &op->kernel);
        T_TRUE(mf_kernel_of(op)->loop != op->loop);
        T_EQ(mf_kernel_of(op)->flags, op->flags);
    }
}
