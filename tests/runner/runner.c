/* SPDX-License-Identifier: Apache-2.0 */
/* runner.c - runs the tests of mf_test_table.
 *
 * Usage: meshflow-tests [--list] [-j N] [-v] [PATTERN...]
 *     PATTERN  run tests whose name contains it; "^part": whose name begins with it
 *     -j N     number of concurrent tests (default: 2)
 *     -v       also show the output of tests that passed
 *
 * Each test is a process that leads its own process group and has a timeout. Its output is written
 * to a memory file, which is shown if the test fails. The runner prints TAP lines in the order in
 * which tests end, and finally `N passed, N failed, N skipped`. The exit status is 0 if no test
 * failed.
 *
 * A test has passed if its function returned *and* the process exited with status 0, so that the
 * leak checker can fail it. An exit(0) before the function returns is a failure. */
#include "runner.h"

#include "mf_test.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_JOBS = 64, DEFAULT_TIMEOUT_S = 60, WHY_SIZE = 200 };
#ifdef MF_SANITIZED
enum { SLOWER = 4 }; /* factor for timeouts with sanitizers */
#else
enum { SLOWER = 1 };
#endif

/* Shared with the test's process, which writes it before it ends. */
typedef struct report {
    int returned; /* 1: the test function returned */
    int skipped;
    char why[WHY_SIZE];
} report;

typedef struct job {
    pid_t pid; /* 0: free */
    const mf_test *test;
    double started;
    double deadline;
    bool timed_out;
    int output; /* memory file */
    report *report;
} job;

typedef struct tally {
    int done, passed, failed, skipped;
} tally;

static job jobs[MAX_JOBS];
static report *my_report; /* in a test's process: its report */
static bool verbose;

void mf_runner_report_skip(const char *why)
{
    my_report->skipped = 1;
    snprintf(my_report->why, sizeof my_report->why, "%s", why);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "test runner: %s: %s\n", what, strerror(errno));
    exit(2);
}

static bool is_chosen(const char *name, char **patterns)
{
    if (*patterns == NULL)
        return true;
    for (; *patterns != NULL; patterns++) {
        const char *p = *patterns;

        if (p[0] == '^' ? strncmp(name, p + 1, strlen(p + 1)) == 0 : strstr(name, p) != NULL)
            return true;
    }
    return false;
}

static _Noreturn void be_the_test(const job *j)
{
    sigset_t none;

    setpgid(0, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(j->output, STDOUT_FILENO);
    dup2(j->output, STDERR_FILENO);
    close(j->output);
    my_report = j->report;
    j->test->run();
    my_report->returned = 1;
    exit(0);
}

static void start(job *j, const mf_test *test)
{
    const int seconds = (test->timeout_s > 0 ? test->timeout_s : DEFAULT_TIMEOUT_S) * SLOWER;

    memset(j->report, 0, sizeof *j->report);
    j->output = memfd_create("test output", MFD_CLOEXEC);
    if (j->output < 0)
        die("memfd_create");
    j->test = test;
    j->timed_out = false;
    j->started = now();
    j->deadline = j->started + seconds;
    fflush(NULL);
    j->pid = fork();
    if (j->pid < 0)
        die("fork");
    if (j->pid == 0)
        be_the_test(j);
    setpgid(j->pid, j->pid); /* in both processes, to avoid a race */
}

static void show_output(int fd)
{
    char line[4096];
    FILE *f = fdopen(fd, "r");

    if (f == NULL)
        die("fdopen");
    rewind(f);
    while (fgets(line, sizeof line, f) != NULL) {
        printf("#   %s", line);
        if (strchr(line, '\n') == NULL)
            putchar('\n');
    }
    fclose(f);
}

/* The cause of the failure as text; "" if the test passed. */
static void judge(const job *j, int status, char *why, size_t size)
{
    const char *ci = getenv("CI");

    why[0] = '\0';
    if (j->timed_out)
        snprintf(why, size, "timed out after %.0f s", j->deadline - j->started);
    else if (WIFSIGNALED(status))
        snprintf(why, size, "killed by SIG%s", sigabbrev_np(WTERMSIG(status)));
    else if (j->report->skipped && ci != NULL && strcmp(ci, "true") == 0)
        snprintf(why, size, "skipped, with CI=true: %s", j->report->why);
    else if (WEXITSTATUS(status) != 0 && j->report->returned)
        snprintf(why, size, "exit status %d after its end (a leak?)", WEXITSTATUS(status));
    else if (WEXITSTATUS(status) != 0)
        snprintf(why, size, "exit status %d", WEXITSTATUS(status));
    else if (!j->report->returned && !j->report->skipped)
        snprintf(why, size, "ended by exit(0) before its end");
}

static void finish(job *j, int status, tally *t)
{
    char why[WHY_SIZE + 60];

    judge(j, status, why, sizeof why);
    t->done++;
    if (why[0] != '\0') {
        t->failed++;
        printf("not ok %d - %s\n#   %s: %s\n", t->done, j->test->name, j->test->file, why);
    } else if (j->report->skipped) {
        t->skipped++;
        printf("ok %d - %s # SKIP %s\n", t->done, j->test->name, j->report->why);
    } else {
        t->passed++;
        printf("ok %d - %s\n", t->done, j->test->name);
    }
    if (why[0] != '\0' || verbose)
        show_output(j->output);
    else
        close(j->output);
    fflush(stdout);
    j->pid = 0;
}

/* Kills tests after their timeout and collects tests that have ended. Returns the number of running
 * tests. */
static int collect(int n_jobs, tally *t)
{
    int running = 0;

    for (job *j = jobs; j < jobs + n_jobs; j++) {
        siginfo_t info = { 0 };
        int status = 0;

        if (j->pid == 0)
            continue;
        if (!j->timed_out && now() > j->deadline) {
            j->timed_out = true;
            kill(-j->pid, SIGKILL);
        }
        if (waitid(P_PID, (id_t)j->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0)
            die("waitid");
        if (info.si_pid == 0) {
            running++;
            continue;
        }
        kill(-j->pid, SIGKILL); /* processes that the test forked, while the group id is still in
                                   use */
        if (waitpid(j->pid, &status, 0) < 0)
            die("waitpid");
        finish(j, status, t);
    }
    return running;
}

static void run_all(int n_jobs, char **patterns, tally *t)
{
    const mf_test *test = mf_test_table;
    const struct timespec tick = { .tv_nsec = 50 * 1000 * 1000 };
    sigset_t child;
    int running = 0;

    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    for (;;) {
        for (job *j = jobs; j < jobs + n_jobs; j++) {
            while (test->name != NULL && !is_chosen(test->name, patterns))
                test++;
            if (j->pid == 0 && test->name != NULL)
                start(j, test++);
        }
        running = collect(n_jobs, t);
        if (running == 0 && test->name == NULL)
            return;
        if (running == n_jobs || test->name == NULL)
            sigtimedwait(&child, NULL, &tick);
    }
}

int main(int argc, char **argv)
{
    tally t = { 0 };
    int n_jobs = 2, opt = 0;
    bool list = false;

    if (argc > 1 && strcmp(argv[1], "--list") == 0) {
        list = true;
        argc--;
        argv++;
    }
    while ((opt = getopt(argc, argv, "j:v")) != -1) {
        if (opt == 'j')
            n_jobs = atoi(optarg);
        if (opt == 'v')
            verbose = true;
        if (opt == '?')
            return 2;
    }
    if (n_jobs < 1 || n_jobs > MAX_JOBS)
        n_jobs = 1;
    if (list) {
        for (const mf_test *test = mf_test_table; test->name != NULL; test++)
            if (is_chosen(test->name, argv + optind))
                printf("%s  %s\n", test->name, test->file);
        return 0;
    }

    report *shared = mmap(NULL, sizeof(report) * MAX_JOBS, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        die("mmap");
    for (int i = 0; i < MAX_JOBS; i++)
        jobs[i].report = &shared[i];

    run_all(n_jobs, argv + optind, &t);
    if (t.done == 0)
        printf("not ok 1 - some test matches\n"), t.failed = 1;
    printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.skipped);
    return t.failed > 0 ? 1 : 0;
}
