/* SPDX-License-Identifier: Apache-2.0 */
/* race.h - annotations for ThreadSanitizer. Intended races: between mf_race_begin() and
 * mf_race_end() it ignores the accesses of this thread. Invisible synchronisation: what a thread
 * did before mf_race_give(p) happens before the other thread's mf_race_take(p), where a library
 * built without the sanitizer has passed p between them. */
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
/* Functions of the sanitizer's runtime. */
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
