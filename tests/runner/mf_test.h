/* SPDX-License-Identifier: Apache-2.0 */
/* mf_test.h - macros for tests.
 *
 *     MF_TEST(shape_of_a_scalar_has_rank_zero)
 *     {
 *         T_EQ(mf_shape_rank(MF_SHAPE()), 0);
 *     }
 *
 * The name is a sentence. tools/gen_test_table.sh finds lines that begin with MF_TEST( or
 * MF_TEST_TIMEOUT(; there is no list to extend. Each test runs in its own process, so it may crash,
 * hang, leak or change the environment without affecting others. The first failed assertion prints
 * both values and ends the test. In a process that the test forked, it ends that process with exit
 * status 1, which the test must check. */
#ifndef MF_TEST_H
#define MF_TEST_H

#include <meshflow/status.h>

#include <stdint.h>

typedef struct mf_test {
    const char *name;
    const char *file;
    void (*run)(void);
    int timeout_s; /* 0: the default, 60 */
} mf_test;

extern const mf_test mf_test_table[]; /* generated; ends with name == NULL */

#define MF_TEST(name)                                                                              \
    void mf_test_##name(void);                                                                     \
    void mf_test_##name(void)

/* For a test that needs more than 60 s, or a shorter timeout. */
#define MF_TEST_TIMEOUT(name, seconds) MF_TEST(name)

#define T_TRUE(condition) mf_t_true((condition) ? 1 : 0, #condition, __FILE__, __LINE__)

/* Integers of any type that fits int64_t. */
#define T_EQ(a, b) mf_t_eq((int64_t)(a), (int64_t)(b), #a, #b, __FILE__, __LINE__)

/* Floats, exactly; NaN equals NaN, and +0 equals -0. */
#define T_EQ_F(a, b) mf_t_near((double)(a), (double)(b), 0.0, #a, #b, __FILE__, __LINE__)

/* |a - b| <= tol. */
#define T_NEAR(a, b, tol)                                                                          \
    mf_t_near((double)(a), (double)(b), (double)(tol), #a, #b, __FILE__, __LINE__)

/* Either may be NULL. */
#define T_STREQ(a, b) mf_t_streq((a), (b), #a, #b, __FILE__, __LINE__)

#define T_OK(call) mf_t_ok((call), #call, __FILE__, __LINE__)

/* `call` fails with `code` and a message that contains `part`. */
#define T_FAILS(code, part, call) mf_t_fails((code), (part), (call), #call, __FILE__, __LINE__)

/* Ends the test as skipped. With CI=true in the environment it is a failure. */
#define T_SKIP(why) mf_t_skip(why)

/* Ends the test as failed, for conditions without a macro. */
#define T_FAIL(...) mf_t_fail(__FILE__, __LINE__, __VA_ARGS__)

void mf_t_true(int holds, const char *text, const char *file, int line);
void mf_t_eq(int64_t a, int64_t b, const char *ta, const char *tb, const char *file, int line);
void mf_t_near(double a, double b, double tol, const char *ta, const char *tb, const char *file,
               int line);
void mf_t_streq(const char *a, const char *b, const char *ta, const char *tb, const char *file,
                int line);
void mf_t_ok(mf_status st, const char *text, const char *file, int line);
void mf_t_fails(mf_status code, const char *part, mf_status st, const char *text, const char *file,
                int line);
_Noreturn void mf_t_skip(const char *why);
_Noreturn void mf_t_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
