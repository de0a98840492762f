/* SPDX-License-Identifier: Apache-2.0 */
/* race.h - races that are meant: between these two, ThreadSanitizer does not look at what this
 * thread reads and writes. */
#ifndef MF_BASE_RACE_H
#define MF_BASE_RACE_H

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MF_TSAN 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define MF_TSAN 1
#endif

#ifdef MF_TSAN
/* Of the sanitizer's own library. */
void AnnotateIgnoreReadsBegin(const char *file, int line);
void AnnotateIgnoreReadsEnd(const char *file, int line);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);

static inline void mf_race_begin(void)
{
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

static inline void mf_race_end(void)
{
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
}
#else
static inline void mf_race_begin(void)
{
}

static inline void mf_race_end(void)
{
}
#endif

#endif
