/* SPDX-License-Identifier: Apache-2.0 */
/* mesh_balance.c - shares of a mesh follow the speeds of its devices. */
#include "dist/mesh/mesh_balance.h"

#include "mf_test.h"

/* Simulated devices: busy time is the size of the slice divided by the speed. */
typedef struct machine {
    mf_meshes meshes;
    mf_layout_rules rules;
    double speed[4];
    int64_t busy[4], step;
} machine;

static void work(machine *m, int64_t steps)
{
    const mf_layout_dim cut = { 1, 1 };

    for (int p = 0; p < m->meshes.devices; p++) {
        int64_t begin, end;

        mf_layout_piece(&m->meshes.at[0], cut, 1000, p, &begin, &end);
        m->busy[p] += (int64_t)((double)((end - begin) * steps) / m->speed[p] * 1000);
    }
    m->step += steps;
}

static bool look(machine *m, mf_mesh_balance *b)
{
    mf_mesh next;
    bool better;

    T_OK(mf_mesh_balance_look(b, &m->meshes, &m->rules, m->step, m->busy, &next, &better));
    if (better) {
        mf_meshes_one(&next, &m->meshes);
        mf_mesh_balance_restart(b, m->step);
        for (int p = 0; p < m->meshes.devices; p++)
            m->busy[p] = 0; /* it is compiled again */
    }
    return better;
}

static int64_t samples_of(const machine *m, int device)
{
    int64_t begin, end;

    mf_layout_piece(&m->meshes.at[0], (mf_layout_dim){ 1, 1 }, 1000, device, &begin, &end);
    return end - begin;
}

MF_TEST(shares_of_a_mesh_follow_speeds_and_converge)
{
    machine m = { .speed = { 1, 1, 3, 2.9 } };
    mf_mesh_balance b;
    int changes = 0;

    T_OK(mf_meshes_parse("rows:2;cols:2", "batch:rows;hidden:cols", &m.meshes, &m.rules));
    mf_mesh_balance_init(&b);
    T_TRUE(!mf_mesh_balance_is_due(&b, &m.meshes, 3));
    for (int i = 0; i < 12; i++) {
        work(&m, 20);
        changes += look(&m, &b);
    }
    T_EQ(changes, 1);
    T_EQ(samples_of(&m, 0), samples_of(&m, 1)); /* a row */
    T_TRUE(samples_of(&m, 0) >= 240 && samples_of(&m, 0) <= 270);
    m.speed[2] = m.speed[3] = 0.5; /* now the other row is slow */
    for (int i = 0; i < 3; i++) {
        work(&m, 20);
        changes += look(&m, &b);
    }
    T_EQ(changes, 2);
    T_TRUE(samples_of(&m, 0) >= 650 && samples_of(&m, 0) <= 680);
    mf_mesh_balance_deinit(&b);
}

MF_TEST(equal_speeds_change_no_shares)
{
    machine m = { .speed = { 1, 1.1, 1.05, 1 } };
    mf_mesh_balance b;

    T_OK(mf_meshes_parse("all:4", "batch:all", &m.meshes, &m.rules));
    mf_mesh_balance_init(&b);
    for (int i = 0; i < 4; i++) {
        work(&m, 20);
        T_TRUE(!look(&m, &b));
    }
    T_TRUE(b.pause > 100); /* the interval between checks grows */
    m.rules.n = 0; /* nothing is cut */
    m.speed[0] = 9;
    work(&m, 20);
    T_TRUE(!look(&m, &b));
    T_OK(mf_meshes_parse("all:2 | all:2", "batch:all", &m.meshes, &m.rules));
    T_TRUE(!mf_mesh_balance_is_due(&b, &m.meshes, 1000000)); /* stages have their layers */
    mf_mesh_balance_deinit(&b);
}
