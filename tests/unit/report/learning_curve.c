/* SPDX-License-Identifier: Apache-2.0 */
/* learning_curve.c - learning curves as text, the progress bar, and formatted numbers. */
#include "report/learning_curve.h"

#include "base/mem.h"
#include "cli/progress.h"
#include "cli/text.h"
#include "mf_test.h"

#include <math.h>
#include <string.h>

static mf_curve *new_curve(void)
{
    mf_curve *c = mf_calloc(1, sizeof *c);

    T_TRUE(c != NULL);
    return c;
}

/* Loss 1/step, accuracy step. */
static void add_steps(mf_curve *c, int64_t from, int64_t to)
{
    for (int64_t s = from; s <= to; s++) {
        const mf_result r[] = { { "loss", 1.0 / (double)s }, { "accuracy", (double)s } };

        mf_curve_add_step(c, s, r, 2);
    }
}

MF_TEST(curve_of_any_length_has_few_evenly_spaced_points)
{
    static const int64_t lengths[] = { 1, 7, 599, 600, 601, 5000, 123457 };

    for (int k = 0; k < MF_COUNT(lengths); k++) {
        mf_curve *c = new_curve();
        const mf_curve_line *line = &c->lines[MF_CURVE_TRAIN];
        int64_t steps = 0;
        double sum = 0;

        add_steps(c, 1, lengths[k]);
        mf_curve_finish(c);
        T_TRUE(line->n <= MF_CURVE_POINTS);
        T_TRUE(line->n >= MF_CURVE_POINTS / 3 || line->n == lengths[k]);
        for (int i = 0; i < line->n; i++) {
            steps += line->points[i].steps;
            sum += line->points[i].values[1] * (double)line->points[i].steps;
            T_EQ(line->points[i].step, steps);
            if (i < line->n - 1)
                T_EQ(line->points[i].steps, line->points[0].steps);
        }
        T_EQ(steps, lengths[k]);
        T_NEAR(sum, (double)lengths[k] * (double)(lengths[k] + 1) / 2, sum * 1e-9);
        mf_free(c);
    }
}

MF_TEST(curve_continues_after_a_resume)
{
    const mf_result validation[] = { { "loss", 0.5 }, { "accuracy", 0.25 } };
    mf_curve *whole = new_curve(), *c = new_curve();
    mf_buf file = { 0 }, a = { 0 }, b = { 0 };

    add_steps(c, 1, 300);
    mf_curve_add(c, MF_CURVE_VALIDATION, 100, validation, 2);
    mf_curve_add(c, MF_CURVE_VALIDATION, 300, validation, 2);
    mf_curve_encode(c, &file);
    add_steps(whole, 1, 400);
    mf_curve_add(whole, MF_CURVE_VALIDATION, 100, validation, 2);
    T_OK(mf_curve_decode(file.data, 200, c)); /* killed at 300, but the checkpoint is of 200 */
    add_steps(c, 201, 400);
    mf_curve_encode(whole, &a);
    mf_curve_encode(c, &b);
    T_STREQ(a.data, b.data);
    mf_buf_deinit(&file);
    mf_buf_deinit(&a);
    mf_buf_deinit(&b);
    mf_free(whole);
    mf_free(c);
}

MF_TEST(curve_rejects_invalid_files)
{
    static const char *const bad[] = {
        "",
        "step,loss\n1,2\n",
        "part,step,steps,loss\ntraining,1,1\n",
        "part,step,steps,loss\ntraining,1,1,x\n",
        "part,step,steps,loss\nsomething,1,1,2\n",
        "part,step,steps,loss\ntraining,1,1,2,3\n",
        "part,step,steps,loss\ntraining,-1,1,2\n",
        "part,step,steps,loss\ntraining,2,1,2\ntraining,1,1,2\n",
        "part,step,steps,loss\ntraining,1,0,2\n",
    };
    mf_curve *c = new_curve();

    for (int i = 0; i < MF_COUNT(bad); i++)
        T_FAILS(MF_INVALID_ARGUMENT, "not a learning curve", mf_curve_decode(bad[i], 100, c));
    T_OK(mf_curve_decode("part,step,steps,loss\ntraining,1,1,nan\n", 100, c));
    T_TRUE(isnan(c->lines[0].points[0].values[0]));
    mf_free(c);
}

MF_TEST(curve_axes_have_round_numbers)
{
    static const double ranges[][2] = { { 0.013, 1.73 },  { -5, 1e6 },  { 3, 3 },       { 0, 0 },
                                        { 1e-12, 2e-12 }, { -1e-3, 0 }, { 0.999999, 1 } };

    for (int i = 0; i < MF_COUNT(ranges); i++) {
        const mf_axis a = mf_axis_of(ranges[i][0], ranges[i][1], 5);
        const double n = (a.hi - a.lo) / a.step;

        T_TRUE(a.lo <= ranges[i][0] && a.hi >= ranges[i][1] && a.hi > a.lo);
        T_TRUE(n > 0.5 && n < 8.5);
        T_NEAR(n, round(n), 1e-3);
    }
    T_EQ_F(mf_axis_of(0.013, 1.73, 4).step, 0.5);
    T_EQ(mf_axis_steps(1, 7), 1);
    T_EQ(mf_axis_steps(12, 7), 2);
    T_EQ(mf_axis_steps(5064, 7), 1000);
    T_EQ(mf_axis_steps((int64_t)1 << 60, 7), 200000000000000000);
}

/* Lines of the text and the longest of them. */
static void measure(const char *text, int *lines, int *width)
{
    *lines = *width = 0;
    for (const char *p = text; *p; (*lines)++) {
        char line[1024] = "";
        const size_t n = strcspn(p, "\n");

        memcpy(line, p, n < sizeof line - 1 ? n : sizeof line - 1);
        *width = mf_cli_width(line) > *width ? mf_cli_width(line) : *width;
        p += n + (p[n] == '\n');
    }
}

MF_TEST(curve_is_drawn_within_its_columns_whatever_the_values)
{
    static const double values[][3] = {
        { 1, 2, 3 }, { NAN, 1, NAN },      { INFINITY, 0, -INFINITY },
        { 5, 5, 5 }, { -1e300, 0, 1e300 }, { 0, 0, 0 }
    };

    for (int i = 0; i < MF_COUNT(values); i++) {
        mf_curve *c = new_curve();
        mf_buf text = { 0 }, svg = { 0 };
        int lines, width;

        for (int k = 0; k < 3; k++)
            mf_curve_add_step(c, k + 1, (mf_result[]){ { "a<b", values[i][k] } }, 1);
        mf_curve_add(c, MF_CURVE_TEST, 3, (mf_result[]){ { "a<b", values[i][1] } }, 1);
        for (int columns = 1; columns < 120; columns += 7) {
            mf_buf_clear(&text);
            mf_plot_text(c, 0, columns, 12, columns % 2, &text);
            measure(text.data ? text.data : "", &lines, &width);
            T_TRUE(columns < 45 || width <= columns);
            T_TRUE(columns < 20 || (lines > 4 && lines < 20));
        }
        mf_plot_svg(c, "x & y", &svg);
        T_TRUE(strstr(svg.data, "x &#38; y") && strstr(svg.data, "</svg>"));
        T_TRUE(!strstr(svg.data, "nan") && !strstr(svg.data, "inf") && !strstr(svg.data, "a<b"));
        mf_buf_deinit(&text);
        mf_buf_deinit(&svg);
        mf_free(c);
    }
}

MF_TEST(curve_without_points_is_empty)
{
    mf_curve *c = new_curve();
    mf_buf text = { 0 };

    mf_curve_finish(c);
    mf_plot_text(c, 0, 80, 12, true, &text);
    T_EQ(text.len, 0);
    mf_plot_svg(c, "t", &text);
    T_TRUE(strstr(text.data, "</svg>") != NULL);
    mf_buf_deinit(&text);
    mf_free(c);
}

MF_TEST(progress_bar_never_wraps)
{
    const mf_result results[] = { { "loss", 0.25 }, { "accuracy", 0.5 }, { "top_5", 1 } };
    const mf_step_report r = { .step = 50, .epoch = 1, .results = results, .n_results = 3 };
    mf_progress p = { .total = 100, .epochs = 3, .per_epoch = 40 };

    for (int columns = 1; columns < 200; columns++) {
        mf_buf text = { 0 };

        p.utf8 = columns % 2;
        mf_progress_bar(&p, &r, columns, &text);
        T_TRUE(mf_cli_width(text.data ? text.data : "") <= columns);
        T_TRUE(columns < 5 || strstr(text.data, "50%") != NULL);
        T_TRUE(columns < 120 || strstr(text.data, "top_5") != NULL);
        mf_buf_deinit(&text);
    }
}

MF_TEST(numbers_are_formatted_for_people)
{
    char text[MF_TEXT];

    T_STREQ(mf_cli_count(0, text), "0");
    T_STREQ(mf_cli_count(999, text), "999");
    T_STREQ(mf_cli_count(1234567, text), "1,234,567");
    T_STREQ(mf_cli_count(-123456, text), "-123,456");
    T_STREQ(mf_cli_count(INT64_MIN, text), "-9,223,372,036,854,775,808");
    T_STREQ(mf_cli_time(7.4, text), "0:07");
    T_STREQ(mf_cli_time(3725, text), "1:02:05");
    T_STREQ(mf_cli_time(1e300, text), "277777:46:40");
    T_STREQ(mf_cli_number(0.86071, text), "0.8607");
    T_STREQ(mf_cli_number(123.456, text), "123.46");
    T_STREQ(mf_cli_number(1.5e-7, text), "1.5e-07");
}
