/* SPDX-License-Identifier: Apache-2.0 */
/* log.c - formats log lines and writes them to stderr. */
#include "base/log.h"

#include "base/clock.h"
#include "base/observer.h"
#include "base/thread.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static atomic_int threshold = MF_LOG_WARNING;
static const char *prefix =
    ""; /* MESHFLOW_LOG_PREFIX: names the process where several share a stream */
static pthread_once_t asked = PTHREAD_ONCE_INIT;

/* Reads the level from MESHFLOW_LOG. */
static void log_ask(void)
{
    static const char *const names[] = { "debug", "info", "warning", "error" };
    const char *wanted = getenv("MESHFLOW_LOG"), *whose = getenv("MESHFLOW_LOG_PREFIX");

    prefix = whose ? whose : "";
    for (int i = 0; wanted && i < 4; i++) {
        if (strcmp(wanted, names[i]) == 0) {
            atomic_store(&threshold, i);
            return;
        }
    }
    if (wanted && *wanted)
        (void)fprintf(stderr,
                      "MESHFLOW_LOG=%s is not a level: use debug, info, warning or "
                      "error\n",
                      wanted);
}

void mf_log_set_level(mf_log_level level)
{
    (void)pthread_once(&asked, log_ask);
    atomic_store(&threshold, (int)level);
}

bool mf_log_wants(mf_log_level level)
{
    (void)pthread_once(&asked, log_ask);
    return (int)level >= atomic_load_explicit(&threshold, memory_order_relaxed);
}

void mf_log_write(mf_log_level level, const char *file, int line, const char *fmt, ...)
{
    const int64_t now = mf_clock_wall_ns();
    const time_t seconds = (time_t)(now / 1000000000);
    const char *name = strrchr(file, '/');
    struct tm tm;
    char text[1200];
    va_list args;

    if (!mf_log_wants(level))
        return;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (level >= MF_LOG_WARNING)
        mf_observe_log(text);
    (void)localtime_r(&seconds, &tm);
    MF_NO_SIGPIPE;
    (void)fprintf(stderr, "%s%c %02d:%02d:%02d.%03d %s:%d] %s\n", prefix, "DIWE"[level], tm.tm_hour,
                  tm.tm_min, tm.tm_sec, (int)(now / 1000000 % 1000), name ? name + 1 : file, line,
                  text);
}
