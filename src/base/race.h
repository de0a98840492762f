/* SPDX-License-Identifier: Apache-2.0 */
/* race.h - races that are meant: between mf_race_begin() and mf_race_end() ThreadSanitizer does not
 * look at what this thread reads and writes. And what it cannot see: whatever a thread has done
 * before mf_race_give(p) is known to the one that does mf_race_take(p), because a library that was
 * built without it has handed p over. */
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
void AnnotateHappensBefore(const char *file, int line, const volatile void *p);
void AnnotateHappensAfter(const char *file, int line, const volatile void *p);

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

static inline void mf_race_give(const volatile void *p)
{
    AnnotateHappensBefore(__FILE__, __LINE__, p);
}

static inline void mf_race_take(const volatile void *p)
{
    AnnotateHappensAfter(__FILE__, __LINE__, p);
}
#else
static inline void mf_race_begin(void)
{
}

static inline void mf_race_end(void)
{
}

static inline void mf_race_give(const volatile void *p)
{
    (void)p;
}

static inline void mf_race_take(const volatile void *p)
{
    (void)p;
}
#endif

#endif
