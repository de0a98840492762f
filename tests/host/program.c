/* SPDX-License-Identifier: Apache-2.0 */
/* program.c - a host program that sets a thread's state as it likes and calls the library.
 *
 *     program CASE      prints "weights DIGITS" where it trains; its exit status is 0 if all holds
 *
 * run.sh compares the digits with those of the case `plain`. */
#define _GNU_SOURCE
#include "common.h"

#include <errno.h>
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum { THREADS = 4, ROUNDS = 20, FORK_SECONDS = 30 };

/* ---- states of a thread ---- */

static unsigned control_word(void)
{
#if defined(__x86_64__)
    return _mm_getcsr();
#else
    return 0;
#endif
}

static void flush_to_zero(bool on)
{
#if defined(__x86_64__)
    _mm_setcsr(on ? _mm_getcsr() | 0x8040U : _mm_getcsr() & ~0x8040U);
#else
    (void)on;
#endif
}

static void set_comma(void)
{
    CHECK(setlocale(LC_ALL, "") != NULL); /* LC_ALL, LOCPATH: run.sh */
    CHECK(strcmp(localeconv()->decimal_point, ",") == 0);
}

/* Flush to zero, upwards, and with traps that would end the process. */
static void set_strange(void)
{
    flush_to_zero(true);
    CHECK(fesetround(FE_UPWARD) == 0);
    feclearexcept(FE_ALL_EXCEPT);
    CHECK(feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW) != -1);
}

static void show_weights(mf_trainer *t)
{
    char digits[65];

    OK(mf_trainer_sha256(t, digits));
    printf("weights %s\n", digits);
}

static void train_alone(char digits[65], const mf_hook *hook)
{
    mf_dataset *data = make_data();
    mf_model *m = make_model();
    mf_trainer *t = make_trainer(m, NULL);

    fit(t, data, hook);
    OK(mf_trainer_sha256(t, digits));
    mf_trainer_free(t);
    mf_model_free(m);
    mf_dataset_unref(data);
}

static void train_and_show(const mf_hook *hook)
{
    char digits[65];

    train_alone(digits, hook);
    printf("weights %s\n", digits);
}

static void plain(void)
{
    train_and_show(NULL);
}

/* What a trainer uses may be freed before it. */
static void freed_in_any_order(void)
{
    mf_dataset *data = make_data();
    mf_model *m = make_model();
    mf_strategy *s;
    mf_trainer *t;

    OK(mf_strategy_open("mirrored replicas=2", NULL, &s));
    t = make_trainer(m, s);
    mf_strategy_close(s);
    mf_model_free(m);
    fit(t, data, NULL);
    mf_dataset_unref(data);
    show_weights(t);
    mf_trainer_free(t);
}

/* ---- locale ---- */

static void print_half(void)
{
    mf_graph *g;
    mf_session *s;
    mf_tensor *result = NULL;
    const char *fetch = "text:0", *data;
    size_t len;

    OK(mf_graph_new(&g));
    (void)mf_applyf(g, "AsString", MF_IN(mf_scalar(g, MF_DTYPE_F32, 0.5)),
                    "name='text' precision=2");
    OK(mf_session_new(g, NULL, &s));
    OK(mf_session_run(s, NULL, NULL, NULL, 0, &fetch, 1, NULL, 0, &result));
    OK(mf_tensor_get_string(result, 0, &data, &len));
    CHECK(len == 4 && memcmp(data, "0.50", 4) == 0);
    mf_tensor_free(result);
    mf_session_free(s);
    mf_graph_free(g);
}

/* A float attribute, written as text and read again. */
static void write_and_read_text(void)
{
    char path[] = "/tmp/host-XXXXXX.pbtxt", line[200];
    const int fd = mkstemps(path, 6);
    bool found = false;
    mf_graph *g, *again;
    FILE *file;

    CHECK(fd >= 0);
    close(fd);
    OK(mf_graph_new(&g));
    (void)mf_applyf(g, "LeakyRelu", MF_IN(mf_scalar(g, MF_DTYPE_F32, 0.5)), "alpha=%g", 0.25);
    OK(mf_graph_save(g, path));
    file = fopen(path, "r");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        found |= strstr(line, "f: 0.25") != NULL;
    fclose(file);
    CHECK(found);
    OK(mf_graph_new(&again));
    OK(mf_graph_load(again, path));
    mf_graph_free(again);
    mf_graph_free(g);
    unlink(path);
}

static void read_csv(void)
{
    char path[] = "/tmp/host-XXXXXX.csv";
    const int fd = mkstemps(path, 4);
    const char text[] = "a,b\n0.5,1\n1.25,2\n";
    float values[2] = { 0 };
    mf_dataset *set;

    CHECK(fd >= 0 && write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1);
    close(fd);
    OK(mf_dataset_open(path, NULL, &set));
    OK(mf_dataset_read(set, 0, 1, (void *[]){ values, NULL }));
    CHECK(values[0] == 1.25F && values[1] == 2);
    mf_dataset_unref(set);
    unlink(path);
}

static void still_comma(void)
{
    char text[16];

    snprintf(text, sizeof text, "%.1f", 0.5);
    CHECK(strcmp(text, "0,5") == 0);
    CHECK(strtod("0,25", NULL) == 0.25);
}

static void comma(void)
{
    set_comma();
    print_half();
    write_and_read_text();
    read_csv();
    train_and_show(NULL);
    still_comma();
}

/* Of this thread alone. */
static void comma_of_a_thread(void)
{
    const locale_t l = newlocale(LC_ALL_MASK, "", (locale_t)0);

    CHECK(l != (locale_t)0);
    uselocale(l);
    still_comma();
    print_half();
    write_and_read_text();
    read_csv();
    train_and_show(NULL);
    CHECK(uselocale(LC_GLOBAL_LOCALE) == l);
    freelocale(l);
}

/* ---- floating-point environment ---- */

static void strange(void)
{
    unsigned before;

    set_strange();
    before = control_word();
    train_and_show(NULL);
    CHECK(control_word() == before); /* the flags, too: nothing was inexact here */
    CHECK(fegetround() == FE_UPWARD);
    CHECK(fetestexcept(FE_ALL_EXCEPT) == 0);
    CHECK(fegetexcept() == (FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW));
}

/* The caller's thread changes between runs of one session; pool threads have been there before. */
static void strange_between_runs(void)
{
    const int rounding[] = { FE_TONEAREST, FE_UPWARD, FE_TOWARDZERO, FE_DOWNWARD };
    mf_dataset *data = make_data();
    mf_model *m = make_model();
    mf_trainer *t = make_trainer(m, NULL);
    mf_fit_options o = { .batch = 32 };

    for (int i = 0; i < STEPS; i++) {
        o.steps = i + 1;
        flush_to_zero(i % 2);
        CHECK(fesetround(rounding[i % 4]) == 0);
        OK(mf_fit(t, data, NULL, &o));
    }
    show_weights(t);
    mf_trainer_free(t);
    mf_model_free(m);
    mf_dataset_unref(data);
}

static mf_status misbehave(void *ctx, mf_trainer *t, const mf_step_report *report)
{
    (void)ctx, (void)t, (void)report;
    CHECK(setlocale(LC_ALL, "") && uselocale(LC_GLOBAL_LOCALE));
    still_comma();
    flush_to_zero(true);
    return fesetround(FE_DOWNWARD) == 0 ? MF_OK : MF_INTERNAL;
}

static void hook_that_misbehaves(void)
{
    const mf_hook hook = { .after_step = misbehave };

    train_and_show(&hook);
    CHECK(fegetround() == FE_TONEAREST);
}

/* ---- threads ---- */

static void *train_in_a_thread(void *arg)
{
    char *digits = arg;

    if (digits[0] == '1')
        set_strange();
    train_alone(digits, NULL);
    return NULL;
}

static void threads(void)
{
    char digits[THREADS][65];
    pthread_t ids[THREADS];

    set_comma();
    for (int i = 0; i < THREADS; i++) {
        digits[i][0] = i % 2 ? '1' : '0';
        CHECK(pthread_create(&ids[i], NULL, train_in_a_thread, digits[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(ids[i], NULL);
    for (int i = 1; i < THREADS; i++)
        CHECK(strcmp(digits[i], digits[0]) == 0);
    printf("weights %s\n", digits[0]);
}

typedef struct predictor {
    mf_trainer *t;
    mf_dataset *data;
    const mf_tensor *right; /* NULL: the weights change meanwhile */
    int wrong;
    atomic_bool *stop;
} predictor;

static void *predict_often(void *arg)
{
    predictor *p = arg;

    for (int i = 0; p->stop ? !atomic_load(p->stop) || i == 0 : i < ROUNDS; i++) {
        mf_tensor *out;

        OK(mf_predict(p->t, p->data, &out));
        CHECK(mf_tensor_dim(out, 0) == SAMPLES && mf_tensor_dim(out, 1) == CLASSES);
        if (p->right)
            p->wrong +=
                memcmp(mf_tensor_data(out), mf_tensor_data(p->right), mf_tensor_bytes(out)) != 0;
        for (int k = 0; k < SAMPLES * CLASSES; k++)
            p->wrong += !(fabsf(((float *)mf_tensor_data(out))[k]) < 1e6F);
        mf_tensor_free(out);
    }
    return NULL;
}

static void predict_from_threads(predictor *p, pthread_t *ids)
{
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&ids[i], NULL, predict_often, &p[i]) == 0);
}

static void join_predictors(const predictor *p, const pthread_t *ids)
{
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
        CHECK(p[i].wrong == 0);
    }
}

/* Four threads ask one trainer: after training, and while it trains. */
static void predictions(void)
{
    mf_dataset *data = make_data();
    mf_model *m = make_model();
    mf_trainer *t = make_trainer(m, NULL);
    predictor p[THREADS];
    pthread_t ids[THREADS];
    atomic_bool stop = false;
    mf_tensor *right;

    for (int i = 0; i < THREADS; i++)
        p[i] = (predictor){ .t = t, .data = data, .stop = &stop };
    predict_from_threads(p, ids);
    fit(t, data, NULL);
    atomic_store(&stop, true);
    join_predictors(p, ids);
    show_weights(t);
    OK(mf_predict(t, data, &right));
    for (int i = 0; i < THREADS; i++)
        p[i] = (predictor){ .t = t, .data = data, .right = right };
    predict_from_threads(p, ids);
    join_predictors(p, ids);
    mf_tensor_free(right);
    mf_trainer_free(t);
    mf_model_free(m);
    mf_dataset_unref(data);
}

static void says(mf_status st, mf_status wanted, const char *words)
{
    if (st == wanted && strstr(mf_error_message(), words))
        return;
    fprintf(stderr, "expected %s, '%s'; it says %s: %s\n", mf_status_name(wanted), words,
            mf_status_name(st), mf_error_message());
    exit(1);
}

/* Tensors and graphs can be made with little stack; what computes says that it is too little. */
static void *call_with_little_stack(void *unused)
{
    mf_tensor *x;
    mf_session *s;
    mf_graph *g;

    OK(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ 2, 2 }, 2, &x));
    OK(mf_graph_new(&g));
    (void)mf_applyf(g, "Neg", MF_IN(mf_constant(g, x, NULL)), "name='n'");
    OK(mf_graph_status(g));
    says(mf_session_new(g, NULL, &s), MF_FAILED_PRECONDITION, "of stack left");
    mf_tensor_free(x);
    mf_graph_free(g);
    return unused;
}

static void *train_with_some_stack(void *unused)
{
    train_and_show(NULL);
    return unused;
}

static void run_with_stack(size_t bytes, void *(*fn)(void *))
{
    pthread_attr_t attr;
    pthread_t id;

    CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, bytes) == 0);
    CHECK(pthread_create(&id, &attr, fn, NULL) == 0);
    pthread_join(id, NULL);
    pthread_attr_destroy(&attr);
}

static void small_stacks(void)
{
    run_with_stack(64 << 10, call_with_little_stack);
    run_with_stack(400 << 10, train_with_some_stack);
}

/* ---- signals ---- */

static pthread_t main_thread;
static atomic_int alarms, pipes, elsewhere;

static void count_signal(int number)
{
    atomic_fetch_add(number == SIGPIPE ? &pipes : &alarms, 1);
    if (!pthread_equal(pthread_self(), main_thread))
        atomic_fetch_add(&elsewhere, 1);
}

static const int handled[] = { SIGPIPE, SIGCHLD, SIGTERM, SIGALRM, SIGUSR1 };
enum { HANDLED = sizeof handled / sizeof handled[0] };

static void handle_signals(void)
{
    const struct sigaction action = { .sa_handler = count_signal }; /* without SA_RESTART */

    main_thread = pthread_self();
    for (int i = 0; i < HANDLED; i++)
        CHECK(sigaction(handled[i], &action, NULL) == 0);
}

static void check_signals(void)
{
    for (int i = 0; i < HANDLED; i++) {
        struct sigaction now;

        CHECK(sigaction(handled[i], NULL, &now) == 0);
        CHECK(now.sa_handler == count_signal && !(now.sa_flags & SA_RESTART));
    }
}

/* The main thread does not take it now; no other may. */
static mf_status raise_one(void *ctx, mf_trainer *t, const mf_step_report *report)
{
    (void)ctx, (void)t, (void)report;
    return kill(getpid(), SIGUSR1) == 0 ? MF_OK : MF_INTERNAL;
}

/* The process is interrupted a thousand times a second, and its log has no reader. */
static void signals(void)
{
    const struct itimerval often = { { 0, 1000 }, { 0, 1000 } }, never = { { 0, 0 }, { 0, 0 } };
    sigset_t before, after;
    int ends[2];

    handle_signals();
    const mf_hook hook = { .after_step = raise_one };
    const int said = dup(2);
    sigset_t usr1;

    CHECK(said >= 0 && pipe(ends) == 0 && dup2(ends[1], 2) == 2);
    close(ends[0]);
    setenv("MESHFLOW_LOG", "debug", 1);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    CHECK(pthread_sigmask(SIG_BLOCK, &usr1, NULL) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &before) == 0);
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    train_and_show(&hook);
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0 && dup2(said, 2) == 2);
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &after) == 0);
    for (int i = 1; i < NSIG; i++)
        CHECK(sigismember(&before, i) == sigismember(&after, i));
    check_signals();
    CHECK(atomic_load(&elsewhere) == 0 && atomic_load(&pipes) == 0);
    atomic_store(&alarms, 0);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &usr1, NULL) == 0);
    CHECK(atomic_load(&alarms) == 1);
}

/* ---- fork ---- */

static mf_dataset *old_data;
static mf_trainer *old_trainer;
static mf_model *old_model;

/* Everything is refused, quickly, and the process can end. */
static void in_child(void)
{
    mf_tensor *out;
    mf_graph *g;
    mf_model *m;
    mf_result results[MF_MAX_RESULTS];
    char digits[65];
    int n;

    alarm(FORK_SECONDS);
    CHECK(mf_predict(old_trainer, old_data, &out) == MF_FAILED_PRECONDITION);
    CHECK(strstr(mf_error_message(), "fork"));
    CHECK(mf_fit(old_trainer, old_data, NULL, NULL) == MF_FAILED_PRECONDITION);
    CHECK(mf_evaluate(old_trainer, old_data, results, &n) == MF_FAILED_PRECONDITION);
    CHECK(mf_trainer_sha256(old_trainer, digits) == MF_FAILED_PRECONDITION);
    CHECK(mf_graph_new(&g) == MF_FAILED_PRECONDITION);
    CHECK(mf_model_new(&m) == MF_FAILED_PRECONDITION);
    mf_trainer_free(old_trainer);
    mf_model_free(old_model);
    mf_dataset_unref(old_data);
    exit(0); /* with what the library does at the end */
}

static void forks(void)
{
    int status;
    pid_t pid;

    old_data = make_data();
    old_model = make_model();
    old_trainer = make_trainer(old_model, NULL);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        in_child();
    fit(old_trainer, old_data, NULL); /* the parent continues */
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    show_weights(old_trainer);
    mf_trainer_free(old_trainer);
    mf_model_free(old_model);
    mf_dataset_unref(old_data);
    if (fork() == 0) /* and a child of a child is one as well */
        _exit(mf_model_new(&old_model) == MF_FAILED_PRECONDITION ? 0 : 1);
    CHECK(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A child that was made before the first call may do anything. */
static void forks_first(void)
{
    const pid_t pid = fork();
    int status;

    CHECK(pid >= 0);
    if (pid == 0) {
        train_and_show(NULL);
        exit(0);
    }
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- as a worker: under `meshflow launch --workers 2 --` ---- */

static void worker(void)
{
    mf_dataset *data = make_data();
    mf_model *m = make_model();
    mf_strategy *s;
    mf_trainer *t;

    set_comma();
    set_strange();
    handle_signals();
    OK(mf_strategy_open("multi_worker_mirrored", NULL, &s));
    CHECK(mf_strategy_size(s) == 2);
    t = make_trainer(m, s);
    fit(t, data, NULL);
    if (mf_strategy_is_chief(s))
        show_weights(t);
    mf_trainer_free(t);
    mf_strategy_close(s);
    mf_model_free(m);
    mf_dataset_unref(data);
    check_signals();
    still_comma();
}

/* ---- mistakes ---- */

static void mistakes_with_graphs(void)
{
    mf_graph *a, *b;
    mf_output x, dx;

    OK(mf_graph_new(&a));
    OK(mf_graph_new(&b));
    x = mf_scalar(a, MF_DTYPE_F32, 1);
    says(mf_gradients(b, &x, 1, &x, 1, NULL, &dx), MF_INVALID_ARGUMENT, "another graph");
    (void)mf_apply(b, "Neg", MF_IN(x));
    says(mf_graph_status(b), MF_INVALID_ARGUMENT, "belongs to another graph");
    x.port = 7;
    (void)mf_apply(a, "Neg", MF_IN(x));
    says(mf_graph_status(a), MF_INVALID_ARGUMENT, "output 7 of the node 'Const', which has 1");
    mf_graph_free(a);
    mf_graph_free(b);
}

static void mistakes_with_models(void)
{
    mf_model *a = make_model(), *b = make_model(), *empty;
    const mf_output of_a = mf_model_input(a, "y", MF_DTYPE_F32, (int64_t[]){ 4 }, 1);
    mf_trainer *t, *again;

    (void)mf_layer(b, "Dense", MF_IN(of_a), "units=2");
    says(mf_model_status(b), MF_INVALID_ARGUMENT, "belongs to another graph or model");
    mf_model_free(b);
    mf_model_free(a);
    OK(mf_model_new(&empty));
    says(mf_model_compile(empty, NULL, &t), MF_FAILED_PRECONDITION, "has no output");
    mf_model_free(empty);
    a = make_model();
    t = make_trainer(a, NULL);
    says(mf_model_compile(a, NULL, &again), MF_FAILED_PRECONDITION, "compiled already");
    says(mf_model_freeze(a, "*", true), MF_FAILED_PRECONDITION, "is compiled");
    (void)mf_model_input(a, "z", MF_DTYPE_F32, NULL, 0);
    says(mf_model_status(a), MF_FAILED_PRECONDITION, "is compiled");
    mf_trainer_free(t);
    mf_model_free(a);
}

/* A column "label" of the given type and shape beside x. */
static mf_dataset *data_with_label(mf_dtype dtype, const int64_t *dims, int rank)
{
    const char *names[] = { "x", "label" };
    mf_tensor *columns[2];
    mf_dataset *set;

    OK(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ SAMPLES, FEATURES }, 2, &columns[0]));
    OK(mf_tensor_new(dtype, dims, rank, &columns[1]));
    OK(mf_dataset_of(names, (const mf_tensor *const *)columns, 2, &set));
    mf_tensor_free(columns[0]);
    mf_tensor_free(columns[1]);
    return set;
}

static void mistakes_with_labels(void)
{
    mf_model *m = make_model();
    mf_dataset *set = data_with_label(MF_DTYPE_F32, (int64_t[]){ SAMPLES, CLASSES + 2 }, 2);
    mf_result results[MF_MAX_RESULTS];
    mf_trainer *t;
    int n;

    OK(mf_model_compile(m, &(mf_compile_options){ .loss = "mean_squared_error" }, &t));
    says(mf_fit(t, set, NULL, NULL), MF_INVALID_ARGUMENT, "labels of shape");
    says(mf_evaluate(t, set, results, &n), MF_INVALID_ARGUMENT, "labels of shape");
    mf_trainer_free(t);
    mf_model_free(m);
    mf_dataset_unref(set);
}

static void mistakes_with_constants(void)
{
    mf_tensor *text;
    mf_graph *g;

    OK(mf_tensor_new(MF_DTYPE_STRING, NULL, 0, &text));
    says(mf_tensor_set_string(text, 0, "a", SIZE_MAX), MF_RESOURCE_EXHAUSTED, "OOM");
    mf_tensor_free(text);
    OK(mf_graph_new(&g));
    (void)mf_scalar(g, MF_DTYPE_I32, NAN);
    says(mf_graph_status(g), MF_INVALID_ARGUMENT, "nan does not fit into int32");
    mf_graph_free(g);
    OK(mf_graph_new(&g));
    (void)mf_scalar(g, MF_DTYPE_U8, 256);
    says(mf_graph_status(g), MF_INVALID_ARGUMENT, "256 does not fit into uint8");
    mf_graph_free(g);
    OK(mf_graph_new(&g));
    (void)mf_ints(g, (int64_t[]){ 1, INT64_C(1) << 40 }, 2);
    says(mf_graph_status(g), MF_INVALID_ARGUMENT, "element 1, 1099511627776, does not fit");
    mf_graph_free(g);
}

static void mistakes_with_columns(void)
{
    const char *twice[] = { "x", "x" }, *empty[] = { "x", "" };
    const mf_tensor *columns[2];
    mf_tensor *x;
    mf_dataset *set;

    OK(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ SAMPLES, FEATURES }, 2, &x));
    columns[0] = columns[1] = x;
    says(mf_dataset_of(twice, columns, 2, &set), MF_INVALID_ARGUMENT, "are named 'x'");
    says(mf_dataset_of(empty, columns, 2, &set), MF_INVALID_ARGUMENT, "empty name");
    mf_tensor_free(x);
}

/* Refused before anything is added to the model, which can then be compiled. */
static mf_trainer *compile_at_last(mf_model *m)
{
    static const struct {
        mf_compile_options o;
        const char *words;
    } wrong[] = {
        { { .learning_rate = NAN }, "learning_rate is nan" },
        { { .learning_rate = -1 }, "learning_rate is -1" },
        { { .threads = -1 }, "threads -1" },
        { { .micro_batches = -2 }, "micro_batches -2" },
        { { .shards = -3 }, "shards -3" },
    };
    mf_trainer *t;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        says(mf_model_compile(m, &wrong[i].o, &t), MF_INVALID_ARGUMENT, wrong[i].words);
    OK(mf_model_compile(m, NULL, &t));
    return t;
}

static void mistakes_with_numbers(void)
{
    static const struct {
        mf_fit_options o;
        const char *words;
    } wrong[] = {
        { { .input_threads = -1 }, "input_threads -1" },
        { { .trace_step = -1 }, "trace_step -1" },
        { { .summary_steps = -1 }, "summary_steps -1" },
        { { .slice = (mf_slicing)77 }, "invalid slicing 77" },
    };
    mf_model *m = make_model(), *other = make_model();
    mf_trainer *t = compile_at_last(m), *none;
    mf_dataset *data = make_data();

    says(mf_model_compile(other, &(mf_compile_options){ .clip = "norm=nan" }, &none),
         MF_INVALID_ARGUMENT, "norm=nan is out of range");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        says(mf_fit(t, data, NULL, &wrong[i].o), MF_INVALID_ARGUMENT, wrong[i].words);
    OK(mf_fit(t, data, NULL, &(mf_fit_options){ .batch = INT64_MAX }));
    CHECK(mf_trainer_step(t) == 1); /* all samples are one batch */
    mf_trainer_free(t);
    mf_model_free(m);
    mf_model_free(other);
    mf_dataset_unref(data);
}

static mf_status fit_again(void *ctx, mf_trainer *t, const mf_step_report *report)
{
    mf_dataset *data = ctx;
    mf_tensor *out;

    if (report->step > 1)
        return MF_OK;
    says(mf_fit(t, data, NULL, NULL), MF_FAILED_PRECONDITION, "runs already");
    OK(mf_predict(t, data, &out)); /* a hook may look, and even change things */
    mf_tensor_free(out);
    OK(mf_trainer_get(t, "dense/bias", &out));
    OK(mf_trainer_set(t, "dense/bias", out));
    mf_tensor_free(out);
    return MF_OK;
}

static void mistakes(void)
{
    mf_dataset *data = make_data();
    const mf_hook hook = { .ctx = data, .after_step = fit_again };

    mistakes_with_graphs();
    mistakes_with_models();
    mistakes_with_labels();
    mistakes_with_constants();
    mistakes_with_columns();
    mistakes_with_numbers();
    train_and_show(&hook);
    mf_dataset_unref(data);
}

/* ---- */

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {
        { "plain", plain },
        { "freed_in_any_order", freed_in_any_order },
        { "comma", comma },
        { "comma_of_a_thread", comma_of_a_thread },
        { "strange", strange },
        { "strange_between_runs", strange_between_runs },
        { "hook_that_misbehaves", hook_that_misbehaves },
        { "threads", threads },
        { "predictions", predictions },
        { "small_stacks", small_stacks },
        { "signals", signals },
        { "forks", forks },
        { "forks_first", forks_first },
        { "worker", worker },
        { "mistakes", mistakes },
    };

    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof cases[0]; i++) {
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    }
    fprintf(stderr, "usage: program CASE\n");
    return 2;
}
