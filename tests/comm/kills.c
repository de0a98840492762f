/* SPDX-License-Identifier: Apache-2.0 */
/* kills.c - random kills inside of collectives, over all kinds of groups and algorithms.
 *
 *     meshflow-kills [KILLS [SEED]]
 *
 * Every kill and every stop must free all others, in time and with the victim's name. */
#include "base/clock.h"
#include "unit/collective/kill_round.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

typedef struct tally {
    int kills, stops, failed;
    double kill_ms, stop_ms; /* the longest */
} tally;

static void one(uint64_t *random, int kind, tally *t)
{
    kill_round r = { .kind = kind, .tasks = 2 + (int)(next(random) % 5), .deadline_ms = 2000 };
    double ms, *longest;

    if (kind == KILL_KINDS - 1 && r.tasks < 3)
        r.tasks = 3; /* two hosts, one of them with two */
    r.victim = (int)(next(random) % (uint64_t)r.tasks);
    r.stop = next(random) % 4 == 0;
    r.after_us = (int64_t)(next(random) % 40000);
    longest = r.stop ? &t->stop_ms : &t->kill_ms;
    *(r.stop ? &t->stops : &t->kills) += 1;
    if (!kill_one(&r, &ms)) {
        t->failed++;
        printf("not ok: %s, %d tasks, worker %d %s after %" PRId64 " us: %.0f ms\n",
               kill_kind_name(kind), r.tasks, r.victim, r.stop ? "stopped" : "killed", r.after_us,
               ms);
    }
    *longest = ms > *longest ? ms : *longest;
}

int main(int argc, char **argv)
{
    const int total = argc > 1 ? atoi(argv[1]) : 500;
    uint64_t random = argc > 2 ? strtoull(argv[2], NULL, 10) : mf_random_seed() % 1000000;
    tally tallies[KILL_KINDS] = { 0 };
    int failed = 0;

    printf("# %d kills, seed %" PRIu64 "\n", total, random);
    for (int i = 0; i < total; i++)
        one(&random, i % KILL_KINDS, &tallies[i % KILL_KINDS]);
    printf("# %-10s %6s %6s %7s  longest until all are free\n", "group", "kills", "stops",
           "failed");
    for (int k = 0; k < KILL_KINDS; k++) {
        const tally *t = &tallies[k];

        printf("# %-10s %6d %6d %7d  %.0f ms, %.0f ms\n", kill_kind_name(k), t->kills, t->stops,
               t->failed, t->kill_ms, t->stop_ms);
        failed += t->failed;
    }
    printf("%d passed, %d failed, 0 skipped\n", total - failed, failed);
    return failed > 0;
}
