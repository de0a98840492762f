/* SPDX-License-Identifier: Apache-2.0 */
/* job_numerics.c - tasks agree on the numerics class of bfloat16 products. */
#include "dist/job_numerics.h"

#include "base/buf.h"
#include "base/log.h"
#include "graph/op.h"

#include <string.h>

const char *mf_job_numerics_note(void)
{
    return mf_isa_name(mf_isa_limit());
}

/* Sets that this build does not know have the bits of the baseline. */
static mf_isa job_numerics_of_task(const mf_net *net, int task)
{
    const char *note = mf_net_note(net, task);
    mf_isa isa = MF_ISA_BASE;

    if (task == mf_net_self(net))
        return mf_isa_bits(mf_isa_limit());
    return note && mf_isa_find(note, &isa) == MF_OK ? mf_isa_bits(isa) : MF_ISA_BASE;
}

mf_isa mf_job_numerics_common(const mf_net *net)
{
    mf_isa common = mf_isa_bits(mf_isa_limit());

    for (int i = 0; i < mf_net_tasks(net); i++) {
        const mf_isa theirs = job_numerics_of_task(net, i);

        common = theirs < common ? theirs : common;
    }
    return common;
}

void mf_job_numerics_agree(const mf_net *net, mf_isa common)
{
    mf_buf text = { 0 };
    bool differ = false;

    for (int i = 0; i < mf_net_tasks(net); i++) {
        const char *note = i == mf_net_self(net) ? mf_job_numerics_note() : mf_net_note(net, i);

        differ |= job_numerics_of_task(net, i) != common;
        mf_buf_printf(&text, "%s%s has %s", i > 0 ? ", " : "", mf_net_name(net, i), note);
    }
    mf_isa_lower(common);
    if (differ && mf_buf_finish(&text) == MF_OK)
        MF_INFO("numerics: %s; bfloat16 is computed as class %s by all, here with %s", text.data,
                mf_numerics_class_of(common, true), mf_isa_name(mf_isa_limit()));
    mf_buf_deinit(&text);
}

mf_status mf_job_numerics_join(const char *name, const char *job, bool bf16)
{
    const mf_isa own = mf_isa_bits(mf_isa_limit());
    mf_isa wanted;

    MF_TRY(mf_isa_find(job, &wanted));
    if (own < wanted && bf16)
        return MF_FAIL(
            MF_INVALID_ARGUMENT,
            "%s computes bfloat16 as numerics class %s (instruction set %s), and the job "
            "as %s: start the job with --numerics %s, or this task on a machine with %s",
            name, mf_numerics_class_of(own, true), mf_isa_name(mf_isa_limit()),
            mf_numerics_class_of(wanted, true), mf_isa_name(mf_isa_limit()), job);
    mf_isa_lower(wanted);
    return MF_OK;
}
