/* SPDX-License-Identifier: Apache-2.0 */
/* train_signals.c - SIGINT and SIGTERM during a training. The first one ends it in order, a second
 * one at once. */
#include "base/exit_code.h"
#include "cli/train_run.h"

#include <signal.h>
#include <unistd.h>

static mf_trainer
    *volatile signal_trainer; /* a signal stops it; the program trains one at a time */
static mf_strategy *volatile signal_strategy; /* SIGTERM leaves it; NULL: there are no peers */
static volatile sig_atomic_t signal_by_master, signal_int, signal_term; /* was received */

/* Every master that supervises this task interrupts it, with sigqueue(): a master that takes the
 * task over may be the second. That is no second signal of a person. */
static bool is_repeated(const siginfo_t *info)
{
    const bool by_master = info->si_code == SI_QUEUE;
    const bool again = by_master && (signal_by_master || signal_int);

    signal_by_master |= by_master;
    return again;
}

static void train_signals_stop(int signal_number, siginfo_t *info, void *context)
{
    volatile sig_atomic_t *received = signal_number == SIGTERM ? &signal_term : &signal_int;

    (void)context;
    if (is_repeated(info))
        return;
    if (*received) {
        (void)signal(signal_number, SIG_DFL);
        (void)raise(signal_number); /* takes effect at the end of this handler */
    }
    *received = 1;
    if (signal_number == SIGTERM && signal_strategy)
        mf_strategy_leave(signal_strategy);
    else if (signal_trainer)
        mf_trainer_stop(signal_trainer);
}

/* There is no step to end in an orderly way. */
static void train_signals_exit(int signal_number, siginfo_t *info, void *context)
{
    (void)signal_number;
    (void)context;
    if (!is_repeated(info))
        _exit(MF_EXIT_STOPPED);
}

void mf_train_ignore_next_signal(void)
{
    signal_trainer = NULL;
    signal_strategy = NULL;
}

void mf_train_handle_signals(mf_trainer *t, mf_strategy *strategy)
{
    struct sigaction action = { .sa_sigaction = t ? train_signals_stop : train_signals_exit,
                                .sa_flags = (int)SA_SIGINFO };

    signal_trainer = t;
    signal_strategy = strategy;
    signal_int = signal_term = 0;
    sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}
