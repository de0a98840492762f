/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - one line per event on stderr: "W 12:34:56.789 file.c:88] sentence". */
#ifndef MF_BASE_LOG_H
#define MF_BASE_LOG_H

#include "base/status.h"

typedef enum mf_log_level { MF_LOG_DEBUG, MF_LOG_INFO, MF_LOG_WARNING, MF_LOG_ERROR } mf_log_level;

/* Lines below this level are dropped. Default: the level that MESHFLOW_LOG names (debug, info,
 * warning, error), else MF_LOG_WARNING. */
void mf_log_set_level(mf_log_level level);
bool mf_log_wants(mf_log_level level); /* false: the line would be dropped and need not be built */
void mf_log_write(mf_log_level level, const char *file, int line, const char *fmt, ...)
    MF_PRINTF(4, 5);

#define MF_LOG(level, ...) mf_log_write((level), __FILE__, __LINE__, __VA_ARGS__)
#define MF_INFO(...) MF_LOG(MF_LOG_INFO, __VA_ARGS__)
#define MF_WARN(...) MF_LOG(MF_LOG_WARNING, __VA_ARGS__)

#endif
