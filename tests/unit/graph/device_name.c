/* SPDX-License-Identifier: Apache-2.0 */
/* device_name.c - parsing, merging and matching of device names. */
#include "graph/device_name.h"

#include "mf_test.h"

#include <string.h>

static mf_device_name parse(const char *text)
{
    mf_device_name d;

    T_OK(mf_device_name_parse(text, &d));
    return d;
}

/* The parsed name is printed as expected. */
static void reads_as(const char *text, const char *expected)
{
    const mf_device_name d = parse(text);
    char out[MF_DEVICE_NAME_MAX];

    T_STREQ(mf_device_name_print(&d, out), expected);
}

MF_TEST(device_name_may_be_full_or_partial)
{
    const mf_device_name d = parse("/job:worker/replica:2/task:11/device:GPU:3");

    T_STREQ(d.job, "worker");
    T_STREQ(d.type, "GPU");
    T_EQ(d.replica, 2);
    T_EQ(d.task, 11);
    T_EQ(d.index, 3);
    reads_as("/job:worker/replica:2/task:11/device:GPU:3",
             "/job:worker/replica:2/task:11/device:GPU:3");
    reads_as("", "");
    reads_as("/", "");
    reads_as("/task:01", "/task:1");
    reads_as("job:worker", "/job:worker");
    reads_as("//job:worker/", "/job:worker");
    reads_as("/cpu:0/task:2/job:worker", "/job:worker/task:2/device:CPU:0");
    reads_as("/job:a/job:b", "/job:b");
}

MF_TEST(device_name_supports_wildcards_and_the_legacy_syntax)
{
    reads_as("/cpu:0", "/device:CPU:0");
    reads_as("/GPU:7", "/device:GPU:7");
    reads_as("/tpu", "/device:TPU:*");
    reads_as("/device:cpu:1", "/device:CPU:1");
    reads_as("/device:CPU", "/device:CPU:*");
    reads_as("/device:CPU:*", "/device:CPU:*");
    reads_as("/device:*:2", "/device:*:2");
    reads_as("/device:*:*", "");
    reads_as("/job:*/replica:*/task:*", "");
    reads_as("/device:XLA_CPU:0", "/device:XLA_CPU:0");
}

MF_TEST(device_name_says_which_part_is_wrong)
{
    mf_device_name d;
    char longer[200] = "/job:";

    memset(longer + 5, 'a', 100);
    T_FAILS(MF_INVALID_ARGUMENT, "device '/job:a/task:x': 'task:x' needs a number",
            mf_device_name_parse("/job:a/task:x", &d));
    T_FAILS(MF_INVALID_ARGUMENT, "'task:-1' needs a number", mf_device_name_parse("/task:-1", &d));
    T_FAILS(MF_INVALID_ARGUMENT, "too large a number",
            mf_device_name_parse("/task:99999999999999999999", &d));
    T_FAILS(MF_INVALID_ARGUMENT, "'task' lacks a number", mf_device_name_parse("/task", &d));
    T_FAILS(MF_INVALID_ARGUMENT, "'job:' lacks a name", mf_device_name_parse("/job:", &d));
    T_FAILS(MF_INVALID_ARGUMENT, "too long a name", mf_device_name_parse(longer, &d));
    T_FAILS(MF_INVALID_ARGUMENT, "that is not allowed", mf_device_name_parse("/job:a b", &d));
    T_FAILS(MF_INVALID_ARGUMENT, "a second device", mf_device_name_parse("/cpu:0/gpu:1", &d));
    T_FAILS(MF_INVALID_ARGUMENT, "'foo:1' is not a part", mf_device_name_parse("/foo:1", &d));
}

/* `inner` in the scope of `outer`. */
static void fills(const char *inner, const char *outer, const char *expected)
{
    mf_device_name d = parse(inner);
    const mf_device_name o = parse(outer);
    char out[MF_DEVICE_NAME_MAX];

    mf_device_name_fill(&d, &o);
    T_STREQ(mf_device_name_print(&d, out), expected);
}

MF_TEST(device_name_fills_missing_parts_from_the_outer_scope)
{
    fills("/task:1", "/job:ps/task:0/cpu:0", "/job:ps/task:1/device:CPU:0");
    fills("", "/job:ps", "/job:ps");
    fills("/job:worker", "", "/job:worker");
    fills("/cpu", "/gpu:1", "/device:CPU:1");
    fills("/device:*:1", "/cpu", "/device:CPU:1");
}

static bool is(const char *name, const char *pattern)
{
    const mf_device_name n = parse(name), p = parse(pattern);

    return mf_device_name_is(&n, &p);
}

static bool agree(const char *a, const char *b)
{
    const mf_device_name x = parse(a), y = parse(b);

    T_EQ(mf_device_name_agrees(&x, &y), mf_device_name_agrees(&y, &x));
    return mf_device_name_agrees(&x, &y);
}

MF_TEST(device_name_matches_a_pattern)
{
    const char *whole = "/job:ps/replica:0/task:1/device:CPU:0";
    const mf_device_name full = parse(whole), part = parse("/job:ps/task:1/device:CPU:0");

    T_TRUE(is(whole, "") && is(whole, "/job:ps") && is(whole, "/cpu:*") && is(whole, whole));
    T_TRUE(!is(whole, "/job:p") && !is(whole, "/task:0") && !is(whole, "/gpu"));
    T_TRUE(!is("", "/job:ps") && !is("/job:ps", whole));
    T_TRUE(agree("/job:ps", "/task:1") && agree("", whole) && agree("/cpu", "/job:a"));
    T_TRUE(!agree("/job:ps/task:1", "/task:0") && !agree("/job:ps", "/job:worker"));
    T_TRUE(mf_device_name_is_full(&full) && !mf_device_name_is_full(&part));
}
