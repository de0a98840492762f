/* SPDX-License-Identifier: Apache-2.0 */
/* job_watcher.c - watches one job: a separate process starts the command, writes its output to the
 * job's log, restarts it where the job asks for that, and records how it ended. It does not depend
 * on the daemon, which may die. If the watcher dies, the kernel kills the command, and the daemon
 * finds a lost job. */
#include "base/clock.h"
#include "base/exit_code.h"
#include "base/file.h"
#include "base/process.h"
#include "jobqueue/jobqueue.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_PAUSE_S = 1, LONGEST_PAUSE_S = 60 };

static volatile sig_atomic_t stop_signals; /* signals that ask it to end: their number */
static const char MARK[] = "MESHFLOW_JOB"; /* environment variable of the job's processes: the job's
                                              name */

static void job_watcher_on_signal(int number)
{
    (void)number;
    stop_signals++;
}

static mf_status job_watcher_write_file(const char *dir, const char *name, const char *file,
                                        const char *text)
{
    mf_buf path = { 0 };
    mf_status st = mf_jobqueue_path(dir, name, file, &path);

    if (st == MF_OK)
        st = mf_file_write(path.data, text, strlen(text));
    mf_buf_deinit(&path);
    return st;
}

static bool is_cancelled(const char *dir, const char *name)
{
    mf_buf path = { 0 };
    const bool is =
        mf_jobqueue_path(dir, name, "cancel", &path) == MF_OK && access(path.data, F_OK) == 0;

    mf_buf_deinit(&path);
    return is;
}

/* Redirects standard output and error to the log. */
static mf_status job_watcher_open_log(const char *dir, const char *name)
{
    mf_buf path = { 0 };
    mf_status st = mf_jobqueue_path(dir, name, "log", &path);
    int log = -1, nothing = -1;

    if (st == MF_OK) {
        log = open(path.data, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
        if (log < 0 || nothing < 0 || dup2(nothing, 0) < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0)
            st = mf_errno_status(errno, "open", path.data);
    }
    mf_buf_deinit(&path);
    return st;
}

/* Runs in the new process; does not return. */
static void job_watcher_become(const char *name, const mf_jobqueue_order *o, int64_t tries,
                               pid_t parent)
{
    const struct sigaction usual = { .sa_handler = SIG_DFL };
    char text[128];
    sigset_t none;

    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)sigaction(SIGTERM, &usual, NULL);
    (void)sigaction(SIGINT, &usual, NULL);
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) /* the watcher died before prctl() */
        _exit(1);
    if (chdir(o->cwd) != 0) {
        dprintf(2, "meshflow: cannot change to the folder '%s': %s\n", o->cwd, strerror(errno));
        _exit(MF_EXIT_CANNOT_RUN);
    }
    (void)clearenv();
    for (int64_t i = 0; i < o->n_environment; i++)
        (void)putenv((char *)(uintptr_t)o->environment[i]);
    (void)setenv(MARK, name, 1);
    (void)snprintf(text, sizeof text, "%s-%llx", name, (unsigned long long)o->submitted_ns);
    (void)setenv("MESHFLOW_JOB_ID", text,
                 1); /* the same for all tries: train/checkpoint/output_lock.h */
    (void)snprintf(text, sizeof text, "%lld", (long long)tries - 1);
    (void)setenv("MESHFLOW_RESTARTS", text, 1);
    (void)execvp(o->words[0], (char *const *)(uintptr_t)o->words);
    dprintf(2, "meshflow: cannot run '%s': %s\n", o->words[0], strerror(errno));
    _exit(MF_EXIT_NO_PROGRAM);
}

/* false also if that cannot be found out. */
static bool job_watcher_is_of(int64_t pid, const char *name)
{
    char path[64], *text = NULL;
    size_t room = 0;
    bool is = false;
    FILE *f;

    (void)snprintf(path, sizeof path, "/proc/%lld/environ", (long long)pid);
    f = fopen(path, "re");
    while (f && !is && getdelim(&text, &room, '\0', f) > 0)
        is = strncmp(text, MARK, sizeof MARK - 1) == 0 && text[sizeof MARK - 1] == '=' &&
             strcmp(text + sizeof MARK, name) == 0;
    if (f)
        (void)fclose(f);
    free(text);
    return is;
}

/* Kills processes of the watcher's session, in any process group. name NULL: the session is ours.
 * Returns how many. */
static int kill_some(const char *name, int64_t watcher)
{
    DIR *proc = opendir("/proc");
    const struct dirent *e;
    int n = 0;

    while (proc && (e = readdir(proc)) != NULL) {
        const int64_t pid = strtoll(e->d_name, NULL, 10);
        mf_process p;

        if (pid <= 0 || pid == watcher || !mf_process_read(pid, &p) || p.session != watcher ||
            p.state == 'Z' || (name && !job_watcher_is_of(pid, name)))
            continue;
        n += kill((pid_t)pid, SIGKILL) == 0;
    }
    if (proc)
        (void)closedir(proc);
    return n;
}

static void kill_session(const char *name, int64_t watcher)
{
    for (int i = 0; i < 100 && kill_some(name, watcher) > 0; i++) /* killed processes may have
                                                                     started others before */
        (void)nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
}

void mf_jobqueue_kill(const char *name, int64_t watcher)
{
    if (watcher > 1)
        kill_session(name, watcher);
}

/* Waits for the command. After a signal to end, ends all of its processes. */
static int job_watcher_await(pid_t child, int64_t grace_s)
{
    int64_t until = 0;
    int status = 0;
    pid_t got;

    while ((got = waitpid(child, &status, WNOHANG)) != child) { /* no blocking wait: a signal may
                                                                   arrive at any time */
        if (got < 0 && errno != EINTR)
            return 1 << 8;
        if (stop_signals && !until) {
            (void)kill(-child, SIGTERM);
            until = mf_clock_ns() + grace_s * 1000000000;
        }
        if (until && mf_clock_ns() > until)
            (void)kill(-child, SIGKILL);
        (void)nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
    }
    kill_session(NULL, getpid()); /* processes that the command left behind */
    return status;
}

static int job_watcher_run_once(const char *name, const mf_jobqueue_order *o, int64_t tries)
{
    const pid_t self = getpid(), child = fork();

    if (child == 0)
        job_watcher_become(name, o, tries, self);
    if (child < 0) {
        dprintf(2, "meshflow: cannot start a process: %s\n", strerror(errno));
        return 1 << 8;
    }
    (void)setpgid(child, child); /* parent and child both do it: the order is not known */
    return job_watcher_await(child, o->grace_s);
}

static int job_watcher_describe(int status, char how[MF_JOBQUEUE_TEXT])
{
    if (WIFSIGNALED(status)) {
        (void)snprintf(how, MF_JOBQUEUE_TEXT, "was killed by signal %d (%s)", WTERMSIG(status),
                       strsignal(WTERMSIG(status)));
        return MF_EXIT_SIGNAL + WTERMSIG(status);
    }
    (void)snprintf(how, MF_JOBQUEUE_TEXT, "ended with exit code %d", WEXITSTATUS(status));
    return WEXITSTATUS(status);
}

static mf_status count_try(const char *dir, const mf_jobqueue_job *job, int64_t tries)
{
    char text[32];

    (void)snprintf(text, sizeof text, "%lld\n", (long long)tries);
    return job_watcher_write_file(dir, job->name, "tries", text);
}

/* Longer after each try, as the cause may be temporary. */
static void job_watcher_rest(int64_t tries)
{
    int64_t s = FIRST_PAUSE_S, until;

    for (; tries > 1 && s < LONGEST_PAUSE_S; tries--)
        s *= 2;
    until = mf_clock_ns() + (s < LONGEST_PAUSE_S ? s : LONGEST_PAUSE_S) * (int64_t)1000000000;

    while (!stop_signals && mf_clock_ns() < until)
        (void)nanosleep(&(struct timespec){ 0, 50000000 }, NULL);
}

/* The disk may be full, and a job without a recorded end counts as lost: it would be reported with
 * another code, or run again. So this waits for space. */
static mf_status job_watcher_put_end(const char *dir, const char *name, mf_jobqueue_state state,
                                     int code, const char *how)
{
    const int signals = stop_signals;
    mf_status st;

    while ((st = mf_jobqueue_write_end(dir, name, state, code, how)) != MF_OK &&
           stop_signals == signals)
        (void)nanosleep(&(struct timespec){ 0, 200000000 }, NULL);
    return st;
}

static mf_status job_watcher_watch(const char *dir, const mf_jobqueue_job *job)
{
    int64_t tries = job->tries;
    char how[MF_JOBQUEUE_TEXT];
    int code;

    MF_TRY(job_watcher_open_log(dir, job->name));
    for (;;) {
        MF_TRY(count_try(dir, job, ++tries));
        code = job_watcher_describe(job_watcher_run_once(job->name, &job->order, tries), how);
        if (stop_signals || tries > job->order.restarts || !mf_exit_may_restart(code))
            break;
        dprintf(2, "meshflow: the job '%s' %s: restarting it, try %lld\n", job->name, how,
                (long long)tries);
        job_watcher_rest(tries);
        if (stop_signals)
            break;
    }
    if ((stop_signals || code != MF_EXIT_DONE) && is_cancelled(dir, job->name))
        return job_watcher_put_end(dir, job->name, MF_JOBQUEUE_CANCELLED, MF_EXIT_STOPPED,
                                   "was cancelled");
    if (stop_signals) /* the machine shuts down: the daemon finds the job lost, and restarts it */
        return MF_OK;
    return job_watcher_put_end(dir, job->name,
                               code == MF_EXIT_DONE      ? MF_JOBQUEUE_DONE
                               : code == MF_EXIT_STOPPED ? MF_JOBQUEUE_STOPPED
                                                         : MF_JOBQUEUE_FAILED,
                               code, how);
}

/* Locks the job until the process ends. False: another watcher has it. */
static bool is_alone(const char *dir, const char *name)
{
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    mf_buf path = { 0 };
    int fd = -1;

    if (mf_jobqueue_path(dir, name, "lock", &path) == MF_OK)
        fd = open(path.data, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    mf_buf_deinit(&path);
    return fd >= 0 && fcntl(fd, F_SETLK, &whole) == 0;
}

/* Runs in the new process. */
static int main_of_watch(const char *dir, const mf_jobqueue_job *job)
{
    const struct sigaction tell = { .sa_handler = job_watcher_on_signal },
                           none = { .sa_handler = SIG_IGN };
    sigset_t all;
    mf_process self;
    char text[64];

    (void)setsid();
    (void)sigaction(SIGTERM, &tell, NULL);
    (void)sigaction(SIGINT, &tell, NULL);
    (void)sigaction(SIGHUP, &none, NULL);
    (void)sigemptyset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    if (!mf_process_read(getpid(), &self) || !is_alone(dir, job->name))
        return 1;
    (void)snprintf(text, sizeof text, "%lld %lld\n", (long long)getpid(), (long long)self.start);
    if (job_watcher_write_file(dir, job->name, "run", text) != MF_OK)
        return 1;
    if (is_cancelled(dir, job->name)) /* cancelled since the daemon looked */
        return mf_jobqueue_write_end(dir, job->name, MF_JOBQUEUE_CANCELLED, MF_EXIT_STOPPED,
                                     "was cancelled before it ran") != MF_OK;
    return job_watcher_watch(dir, job) != MF_OK;
}

int64_t mf_jobqueue_start(const char *dir, const mf_jobqueue_job *job)
{
    const pid_t pid = fork();

    if (pid == 0)
        _exit(main_of_watch(dir, job));
    if (pid < 0)
        (void)MF_FAIL(MF_RESOURCE_EXHAUSTED, "cannot start a process: %s", strerror(errno));
    return pid;
}
