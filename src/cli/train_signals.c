/* SPDX-License-Identifier: Apache-2.0 */
/* train_signals.c - SIGINT and SIGTERM during a training. */
#include "base/exit_code.h"
#include "cli/train_run.h"

#include <signal.h>
#include <unistd.h>

static mf_trainer
    *volatile signal_trainer; /* a signal stops it; the program trains one at a time */
static mf_strategy *volatile signal_strategy; /* SIGTERM leaves it; NULL: there are no peers */

static void train_signals_stop(int signal_number)
{
    if (signal_number == SIGTERM && signal_strategy)
        mf_strategy_leave(signal_strategy);
    else if (signal_trainer)
        mf_trainer_stop(signal_trainer);
}

/* There is no step to end in an orderly way. */
static void train_signals_exit(int signal_number)
{
    (void)signal_number;
    _exit(MF_EXIT_STOPPED);
}

void mf_train_ignore_next_signal(void)
{
    signal_trainer = NULL;
    signal_strategy = NULL;
}

void mf_train_handle_signals(mf_trainer *t, mf_strategy *strategy)
{
    struct sigaction action = { .sa_handler = train_signals_stop, .sa_flags = (int)SA_RESETHAND };

    signal_trainer = t;
    signal_strategy = strategy;
    sigemptyset(&action.sa_mask);
    if (!t)
        action.sa_handler = train_signals_exit;
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}
