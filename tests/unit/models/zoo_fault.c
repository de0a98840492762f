/* SPDX-License-Identifier: Apache-2.0 */
/* zoo_fault.c - a failed allocation while a model is built is an error, not a crash. */
#include "base/mem.h"
#include "mf_test.h"
#include "models/metrics.h"
#include "models/zoo.h"

static mf_status build_all(const char *text, const mf_column *columns, int n, int64_t classes)
{
    const mf_metric_kind *kind;
    mf_model *m;
    mf_output label;
    mf_status st;

    MF_TRY(mf_zoo_build(text, columns, n, classes, &m));
    label = mf_model_input(m, "label", MF_DTYPE_I32, columns[n - 1].dims, columns[n - 1].rank);
    (void)mf_loss(m, "sparse_categorical_crossentropy", m->output, label);
    (void)mf_metric(m, "f1", m->output, label, &kind);
    st = mf_model_status(m);
    mf_model_free(m);
    return st;
}

static void check_every_allocation(const char *text, const char *example)
{
    mf_arena *arena = mf_arena_new();
    mf_column *columns;
    int64_t classes, failed = 0;
    int n;

    T_OK(mf_zoo_columns(example, arena, &columns, &n, &classes));
    T_OK(build_all(text, columns, n,
                   classes)); /* objects that are created once per process exist now */
    for (int64_t i = 1;; i++) {
        mf_mem_fail_at(i);
        const mf_status st = build_all(text, columns, n, classes);
        mf_mem_fail_at(0);
        if (st == MF_OK)
            break;
        if (st != MF_RESOURCE_EXHAUSTED)
            T_FAIL("%s, allocation %lld: %s", text, (long long)i, mf_error_message());
        failed++;
    }
    T_TRUE(failed > 3);
    mf_arena_free(arena);
}

MF_TEST(models_fault_memory_runs_out_while_building)
{
    check_every_allocation("mlp units=7", "image=uint8[4,4,1] label=int32[] classes=3");
    check_every_allocation("resnet8", "image=uint8[8,8,1] label=int32[] classes=3");
    check_every_allocation("lstm vocabulary=9", "tokens=int32[4] label=int32[] classes=3");
    check_every_allocation("transformer layers=1", "tokens=int32[4] label=int32[4] classes=9");
}
