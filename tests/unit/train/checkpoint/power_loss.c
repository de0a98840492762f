/* SPDX-License-Identifier: Apache-2.0 */
/* power_loss.c - checkpoints on a disk that fails at any call, or loses power at any moment. */
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/checkpoint/checkpoint.h"
#include "unit/train/checkpoint/disk.h"
#include "unit/train/loop/toy.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SAVES = 8, KEEP = 2, CUTS = 10000 };

static char dir[] = "/tmp/mf-power-XXXXXX", cut[] = "/dev/shm/mf-cut-XXXXXX";

static void begin(toy *p)
{
    mf_log_set_level(MF_LOG_ERROR); /* otherwise each failure prints a line */
    T_TRUE(mkdtemp(dir) != NULL);
    toy_line(p);
    toy_compile(p, (mf_compile_options){ .optimizer = "momentum" });
}

/* Removes all files. Returns how many had `what` in their name; NULL: all. */
static int sweep(const char *folder, const char *what, bool remove_them)
{
    DIR *d = opendir(folder);
    const struct dirent *e;
    int n = 0;

    T_TRUE(d != NULL);
    while ((e = readdir(d)) != NULL) {
        if (e->d_name[0] == '.' || (what && !strstr(e->d_name, what)))
            continue;
        n++;
        if (remove_them)
            T_EQ(unlinkat(dirfd(d), e->d_name, 0), 0);
    }
    (void)closedir(d);
    return n;
}

static void end(toy *p)
{
    toy_end(p);
    (void)sweep(dir, NULL, true);
    T_EQ(rmdir(dir), 0);
}

/* ---- calls that fail ---- */

static void look_at_step(toy *p, int64_t step, const char *sha, int64_t call)
{
    char now[65], *prefix;

    T_OK(mf_checkpoints_restore(dir, p->trainer, &prefix));
    T_OK(mf_trainer_sha256(p->trainer, now));
    if (!prefix || mf_trainer_step(p->trainer) != step || strcmp(now, sha) != 0)
        T_FAIL("call %lld failed, and step %lld is not restored", (long long)call, (long long)step);
    mf_free(prefix);
}

/* Saves step 2 while the call with this number fails. False: there are fewer calls. */
static bool save_with_failure(toy *p, mf_checkpoints *c, disk *d, char *sha)
{
    toy_fit(p, 1);
    T_OK(mf_trainer_sha256(p->trainer, sha));
    disk_watch(d);
    T_OK(mf_checkpoints_save(c, p->trainer)); /* training continues */
    (void)!mf_checkpoints_wait(c); /* the last save may have failed */
    disk_leave();
    return d->calls >= d->fail_at;
}

/* Every call of a save fails once. Then the folder has what it had before and nothing else; or the
 * new checkpoint is whole, where the failure was no more than a short write, or of the list. */
static int64_t fail_everywhere(toy *p, int error)
{
    char old[65], new[65];
    mf_checkpoints *c;
    int64_t call = 0;
    int files;
    bool failed;

    T_OK(mf_checkpoints_open(dir, 5, &c));
    toy_fit(p, 1);
    T_OK(mf_trainer_sha256(p->trainer, old));
    T_OK(mf_checkpoints_save(c, p->trainer));
    (void)!mf_checkpoints_wait(c); /* the last save may have failed */
    files = sweep(dir, NULL, false);
    do {
        disk d = { .folder = dir, .fail_at = ++call, .error = error };
        bool saved;

        failed = save_with_failure(p, c, &d, new);
        saved = sweep(dir, "model.ckpt-2.index", false) == 1;
        look_at_step(p, saved ? 2 : 1, saved ? new : old, call);
        T_TRUE(saved || (failed && error != 0));
        T_OK(mf_checkpoints_drop_after(c, 1));
        if (sweep(dir, NULL, false) != files)
            T_FAIL("call %lld failed, and leaves files behind", (long long)call);
        look_at_step(p, 1, old, call);
        disk_deinit(&d);
    } while (failed);
    T_OK(mf_checkpoints_close(c));
    return call - 1;
}

MF_TEST(disk_that_fails_at_any_call_keeps_the_previous_checkpoint)
{
    static const int errors[] = { ENOSPC, EIO, EDQUOT, 0 };

    for (int i = 0; i < MF_COUNT(errors); i++) {
        toy p;
        int64_t calls;

        (void)snprintf(dir, sizeof dir, "/tmp/mf-power-XXXXXX");
        begin(&p);
        calls = fail_everywhere(&p, errors[i]);
        printf("%s: %lld calls of a save failed, one at a time\n",
               errors[i] ? strerrorname_np(errors[i]) : "short writes", (long long)calls);
        T_TRUE(calls >= 8);
        end(&p);
    }
}

/* ---- power failures ---- */

typedef struct history {
    disk d;
    char sha[SAVES + 1][65]; /* after step i */
    int64_t began[SAVES + 2],
        done[SAVES + 1]; /* number of acts at the start and the end of the save of step i */
} history;

static void save_often(toy *p, history *h)
{
    mf_checkpoints *c;

    h->d.folder = dir;
    disk_watch(&h->d);
    T_OK(mf_checkpoints_open(dir, KEEP, &c));
    for (int i = 1; i <= SAVES; i++) {
        toy_fit(p, 1);
        T_OK(mf_trainer_sha256(p->trainer, h->sha[i]));
        h->began[i] = h->d.n;
        T_OK(mf_checkpoints_save(c, p->trainer));
        (void)!mf_checkpoints_wait(c); /* the last save may have failed */
        h->done[i] = h->d.n;
    }
    T_OK(mf_checkpoints_close(c));
    disk_leave();
    h->began[SAVES + 1] = h->d.n + 1;
}

/* The last saved checkpoint is restored, or the checkpoint of the interrupted save. */
static void look_after_cut(toy *p, const history *h, int64_t acts, int64_t cuts)
{
    int last = SAVES, next;
    char sha[65], *prefix;
    int64_t step;

    while (h->done[last] > acts)
        last--;
    next = last < SAVES && h->began[last + 1] <= acts ? last + 1 : last;
    T_OK(mf_checkpoints_restore(cut, p->trainer, &prefix));
    T_TRUE(prefix != NULL);
    T_OK(mf_trainer_sha256(p->trainer, sha));
    step = mf_trainer_step(p->trainer);
    if ((step != last && step != next) || strcmp(sha, h->sha[step]) != 0)
        T_FAIL("cut %lld, after %lld acts: step %lld is restored, not %d or %d", (long long)cuts,
               (long long)acts, (long long)step, last, next);
    mf_free(prefix);
}

MF_TEST_TIMEOUT(disk_whose_power_fails_has_the_previous_or_the_new_checkpoint, 120)
{
    uint64_t random = 1;
    history h = { 0 };
    toy p;

    begin(&p);
    T_TRUE(mkdtemp(cut) != NULL);
    save_often(&p, &h);
    for (int64_t i = 0; i < CUTS; i++) {
        const int64_t range = h.d.n - h.done[1] + 1; /* after the first save */
        const int64_t acts = h.done[1] + i % range;

        disk_cut(&h.d, acts, cut, &random);
        look_after_cut(&p, &h, acts, i);
        (void)sweep(cut, NULL, true);
    }
    printf("%d cuts of the power, after each of %lld calls\n", CUTS,
           (long long)(h.d.n - h.done[1]));
    T_EQ(rmdir(cut), 0);
    disk_deinit(&h.d);
    end(&p);
}
