/* SPDX-License-Identifier: Apache-2.0 */
/* schema.c - matching of columns and classes between files, and the choice of the task from labels.
 * */
#include "data/schema.h"

#include "data/class_labels.h"
#include "data/source.h"
#include "mf_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char dir[] = "/tmp/mf_schema_XXXXXX", path[4][256];

static const char *in_dir(const char *name)
{
    static int next;
    char *p = path[next++ % 4];

    if (strcmp(dir + strlen(dir) - 6, "XXXXXX") == 0)
        T_TRUE(mkdtemp(dir) != NULL);
    (void)snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

static const char *text_file(const char *name, const char *text)
{
    const char *p = in_dir(name);
    FILE *f = fopen(p, "w");

    T_TRUE(f != NULL);
    T_TRUE(fputs(text, f) >= 0);
    T_EQ(fclose(f), 0);
    return p;
}

static void done(void)
{
    char command[300];

    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    T_EQ(system(command), 0);
}

/* The schema that a training on this text would write. */
static mf_dataset *learn(const char *name, const char *text, mf_arena *arena, mf_schema *out)
{
    mf_dataset *set;

    T_OK(mf_dataset_open(text_file(name, text), NULL, &set));
    T_OK(mf_schema_of(set, arena, out));
    return set;
}

static mf_status open_for(const mf_schema *schema, const char *file, const char *settings,
                          bool label_optional, mf_dataset **out)
{
    const mf_opening how = { .settings = settings, .expected = { schema, label_optional } };
    mf_opened opened;
    const mf_status st = mf_source_open(file, &how, &opened);

    *out = opened.set;
    return st;
}

MF_TEST(schema_a_class_keeps_its_number_in_a_file_without_the_others)
{
    mf_arena *arena = mf_arena_new();
    mf_schema schema;
    mf_dataset *train = learn("a.csv", "x,label\n1,no\n2,yes\n3,maybe\n", arena, &schema), *test;
    const char *const *names;
    int32_t label;
    float x;

    T_OK(open_for(&schema, text_file("b.csv", "x,label\n1,yes\n2,yes\n"), NULL, false, &test));
    T_EQ(mf_dataset_classes(test, &names), 3);
    T_STREQ(names[2], "yes");
    T_OK(mf_dataset_read(test, 0, 1, (void *[]){ &x, &label }));
    T_EQ(label, 2);
    T_OK(mf_schema_check(&schema, test, "b.csv"));
    mf_dataset_unref(test);
    T_FAILS(
        MF_INVALID_ARGUMENT,
        "c.csv', line 3: the model does not know the class 'perhaps'; it "
        "knows maybe, no, yes",
        open_for(&schema, text_file("c.csv", "x,label\n1,yes\n2,perhaps\n"), NULL, false, &test));
    mf_dataset_unref(train);
    mf_arena_free(arena);
    done();
}

MF_TEST(schema_numeric_classes_are_matched_by_value)
{
    mf_arena *arena = mf_arena_new();
    mf_schema schema;
    mf_dataset *train = learn("a.csv", "x,label\n1,-1\n2,1\n", arena, &schema), *test;
    int32_t label;
    float x;

    /* A label 1 would be class 1 of two by accident; 1.0 would be a number to predict. */
    T_OK(open_for(&schema, text_file("b.csv", "x,label\n1,1.0\n2,-1\n"), NULL, false, &test));
    T_OK(mf_dataset_read(test, 0, 0, (void *[]){ &x, &label }));
    T_EQ(label, 1);
    T_OK(mf_dataset_read(test, 0, 1, (void *[]){ &x, &label }));
    T_EQ(label, 0);
    mf_dataset_unref(test);
    T_FAILS(MF_INVALID_ARGUMENT, "does not know the class '0'",
            open_for(&schema, text_file("c.csv", "x,label\n1,0\n"), NULL, false, &test));
    mf_dataset_unref(train);
    mf_arena_free(arena);
    done();
}

MF_TEST(schema_fields_are_matched_by_name)
{
    mf_arena *arena = mf_arena_new();
    mf_schema schema;
    mf_dataset *train = learn("a.csv", "a,b,label\n1,2,0\n3,4,1\n", arena, &schema), *test;
    int32_t label;
    float x[2];

    T_OK(open_for(&schema, text_file("b.csv", "label,b,a\n1,20,10\n"), NULL, false, &test));
    T_OK(mf_dataset_read(test, 0, 0, (void *[]){ x, &label }));
    T_TRUE(x[0] == 10 && x[1] == 20 && label == 1);
    mf_dataset_unref(test);
    T_OK(open_for(&schema, text_file("c.csv", "b,a\n20,10\n"), NULL, true, &test));
    T_OK(mf_dataset_read(test, 0, 0, (void *[]){ x }));
    T_TRUE(x[0] == 10 && x[1] == 20);
    mf_dataset_unref(test);
    T_FAILS(MF_INVALID_ARGUMENT, "has no column 'b', which the model was trained on",
            open_for(&schema, text_file("d.csv", "a,label\n1,0\n"), NULL, false, &test));
    T_FAILS(MF_INVALID_ARGUMENT, "has a column 'c', which the model was not trained on",
            open_for(&schema, text_file("e.csv", "a,c,b,label\n1,2,3,0\n"), NULL, false, &test));
    mf_dataset_unref(train);
    mf_arena_free(arena);
    done();
}

/* Truncated to integers, 0.5 and 1.5 would be classes. */
MF_TEST(schema_fractional_labels_are_not_classes)
{
    mf_arena *arena = mf_arena_new();
    mf_schema schema;
    mf_dataset *train = learn("a.csv", "x,label\n1,0\n2,1\n", arena, &schema), *test;
    mf_tensor *x, *label;

    T_OK(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ 2, 1 }, 2, &x));
    T_OK(mf_tensor_new(MF_DTYPE_F32, (int64_t[]){ 2 }, 1, &label));
    ((float *)mf_tensor_data(label))[1] = 1;
    T_OK(mf_dataset_of((const char *const[]){ "x", "label" },
                       (const mf_tensor *const[]){ x, label }, 2, &test));
    T_OK(mf_schema_check(&schema, test, "b.npz"));
    mf_dataset_unref(test);
    ((float *)mf_tensor_data(label))[1] = 0.5f;
    T_OK(mf_dataset_of((const char *const[]){ "x", "label" },
                       (const mf_tensor *const[]){ x, label }, 2, &test));
    T_FAILS(MF_INVALID_ARGUMENT, "'b.npz', sample 1: the model does not know the class 0.5",
            mf_schema_check(&schema, test, "b.npz"));
    mf_dataset_unref(test);
    mf_tensor_free(x);
    mf_tensor_free(label);
    mf_dataset_unref(train);
    mf_arena_free(arena);
    done();
}

/* Of two columns with one name the first is the first. */
MF_TEST(schema_fields_with_the_same_name_keep_their_order)
{
    mf_arena *arena = mf_arena_new();
    mf_schema schema;
    mf_dataset *train = learn("a.csv", "a,a,c,label\n1,2,3,0\n3,4,5,1\n", arena, &schema), *test;
    int32_t label;
    float x[3];

    T_OK(open_for(&schema, text_file("b.csv", "label,c,a,a\n1,30,10,20\n"), NULL, false, &test));
    T_OK(mf_dataset_read(test, 0, 0, (void *[]){ x, &label }));
    T_TRUE(x[0] == 10 && x[1] == 20 && x[2] == 30 && label == 1);
    mf_dataset_unref(test);
    T_FAILS(MF_INVALID_ARGUMENT, "has no column 'a', which the model was trained on",
            open_for(&schema, text_file("d.csv", "a,c,label\n1,2,0\n"), NULL, false, &test));
    mf_dataset_unref(train);
    mf_arena_free(arena);
    done();
}

/* A table of `n` columns f0, f1 ... whose numbers are their own, from the first or from the last.
 */
static const char *wide_table(const char *name, int n, bool turned)
{
    mf_buf text = { 0 };
    const char *written;

    for (int row = 0; row < 2; row++) {
        for (int i = 0; i < n; i++)
            mf_buf_printf(&text, "%s%d,", row == 0 ? "f" : "", turned ? n - 1 - i : i);
        mf_buf_str(&text, row == 0 ? "label\n" : "0\n");
    }
    written = text_file(name, text.data);
    mf_buf_deinit(&text);
    return written;
}

MF_TEST(schema_fields_of_a_wide_table_are_matched_by_name)
{
    enum { FIELDS = 5000 };
    mf_arena *arena = mf_arena_new();
    mf_opened o;
    mf_schema schema;
    mf_dataset *test;
    int32_t label;
    float x[FIELDS];

    T_OK(mf_source_open(wide_table("a.csv", FIELDS, false), &(mf_opening){ 0 }, &o));
    T_OK(mf_schema_of(o.set, arena, &schema));
    T_OK(open_for(&schema, wide_table("b.csv", FIELDS, true), NULL, false, &test));
    T_OK(mf_dataset_read(test, 0, 0, (void *[]){ x, &label }));
    for (int i = 0; i < FIELDS; i++)
        T_EQ((int)x[i], i);
    mf_dataset_unref(test);
    mf_dataset_unref(o.set);
    mf_arena_free(arena);
    done();
}

MF_TEST(schema_files_of_one_table_have_the_same_columns)
{
    mf_dataset *set;

    (void)text_file("part-1.csv", "a,b,label\n1,2,0\n");
    (void)text_file("part-2.csv", "b,a,label\n1,2,0\n");
    T_FAILS(MF_INVALID_ARGUMENT, "part-2.csv': column 1 is 'b', in",
            mf_dataset_open(in_dir("part-*.csv"), NULL, &set));
    done();
}

MF_TEST(schema_names_the_column_that_differs)
{
    mf_arena *arena = mf_arena_new();
    mf_schema schema;
    mf_dataset *train = learn("a.csv", "p,q,r\n3,4,1\n", arena, &schema), *test;

    T_EQ(schema.n, 1); /* no column has the default name of a label */
    T_OK(mf_dataset_open(text_file("b.csv", "1,2\n"), "header=false", &test));
    T_FAILS(MF_INVALID_ARGUMENT,
            "the model was trained on x float [3], but 'b.csv' has x float [2]",
            mf_schema_check(&schema, test, "b.csv"));
    mf_dataset_unref(test);
    mf_dataset_unref(train);
    mf_arena_free(arena);
    done();
}

static void labels_of(const char *const *texts, int64_t n, mf_target target, mf_labels *out)
{
    T_OK(mf_labels_of_texts(texts, n, target, NULL, out));
}

MF_TEST(labels_select_the_task_by_their_type)
{
    static const char *const whole[] = { "2", "0" }, *const fraction[] = { "2", "0.5" },
                             *const point[] = { "1.0", "2.0" }, *const words[] = { "b", "1.5" };
    mf_labels l;

    labels_of(whole, 2, MF_TARGET_AUTO, &l);
    T_TRUE(l.classes == 3 && l.tensor->dtype == MF_DTYPE_I32);
    mf_labels_deinit(&l);
    labels_of(whole, 2, MF_TARGET_NUMBER, &l);
    T_TRUE(l.classes == 0 && ((const float *)l.tensor->data)[0] == 2.0f);
    mf_labels_deinit(&l);
    labels_of(fraction, 2, MF_TARGET_AUTO, &l);
    T_TRUE(l.classes == 0 && l.tensor->dtype == MF_DTYPE_F32);
    mf_labels_deinit(&l);
    labels_of(point, 2, MF_TARGET_AUTO, &l);
    T_EQ(l.classes, 0);
    mf_labels_deinit(&l);
    labels_of(point, 2, MF_TARGET_CLASS, &l);
    T_TRUE(l.classes == 2 && strcmp(l.names[1], "2.0") == 0);
    mf_labels_deinit(&l);
    labels_of(words, 2, MF_TARGET_AUTO, &l);
    T_TRUE(l.classes == 2 && strcmp(l.names[0], "1.5") == 0);
    mf_labels_deinit(&l);
}

MF_TEST(labels_that_are_missing_are_named)
{
    static const char *const empty[] = { "a", "" }, *const nan[] = { "1.5", "2", "NaN" },
                             *const text[] = { "1.5", "x" };
    mf_labels l;

    T_FAILS(MF_INVALID_ARGUMENT, "the label is missing",
            mf_labels_of_texts(empty, 2, MF_TARGET_AUTO, NULL, &l));
    T_EQ(l.wrong, 1);
    mf_labels_deinit(&l);
    T_FAILS(MF_INVALID_ARGUMENT, "the label is missing: 'NaN'",
            mf_labels_of_texts(nan, 3, MF_TARGET_AUTO, NULL, &l));
    T_EQ(l.wrong, 2);
    mf_labels_deinit(&l);
    T_FAILS(MF_INVALID_ARGUMENT, "the label is not a number: 'x'",
            mf_labels_of_texts(text, 2, MF_TARGET_NUMBER, NULL, &l));
    T_EQ(l.wrong, 1);
    mf_labels_deinit(&l);
}

/* One text among prices is an error: the prices do not become classes. */
MF_TEST(labels_with_one_invalid_number_are_not_classes)
{
    static const char *const prices[] = { "1.5", "2.25", "n/a", "3", "0.5" };
    mf_labels l;

    T_FAILS(MF_INVALID_ARGUMENT,
            "the label is not a number: 'n/a', but 3 others have a decimal point",
            mf_labels_of_texts(prices, 5, MF_TARGET_AUTO, NULL, &l));
    T_EQ(l.wrong, 2);
    mf_labels_deinit(&l);
    labels_of(prices, 5, MF_TARGET_CLASS, &l);
    T_EQ(l.classes, 5);
    mf_labels_deinit(&l);
}

/* 30 samples: nearly all labels differ, or three labels repeat. */
MF_TEST(labels_with_many_distinct_numbers_need_a_setting)
{
    char room[30][8];
    const char *texts[30];
    mf_labels l;

    for (int i = 0; i < 30; i++) {
        texts[i] = room[i];
        (void)snprintf(room[i], sizeof room[i], "%d", 500 + 7 * i);
    }
    T_FAILS(MF_INVALID_ARGUMENT, "30 samples are 30 different numbers: set target=number",
            mf_labels_of_texts(texts, 30, MF_TARGET_AUTO, NULL, &l));
    mf_labels_deinit(&l);
    (void)snprintf(room[0], sizeof room[0], "-5");
    T_FAILS(MF_INVALID_ARGUMENT, "30 samples are 30 different numbers: set target=number",
            mf_labels_of_texts(texts, 30, MF_TARGET_AUTO, NULL, &l));
    mf_labels_deinit(&l);
    labels_of(texts, 30, MF_TARGET_CLASS, &l);
    T_EQ(l.classes, 30);
    mf_labels_deinit(&l);
    for (int i = 0; i < 30; i++)
        (void)snprintf(room[i], sizeof room[i], "%d", 3 + 3 * (i % 3));
    labels_of(texts, 30, MF_TARGET_AUTO, &l);
    T_EQ(l.classes, 10);
    mf_labels_deinit(&l);
}

MF_TEST(labels_with_many_distinct_integers_need_a_setting)
{
    static const char *const prices[] = { "100000", "250000", "90000" };
    mf_labels l;

    T_FAILS(MF_INVALID_ARGUMENT, "set target=number to predict numbers, or target=class",
            mf_labels_of_texts(prices, 3, MF_TARGET_AUTO, NULL, &l));
    mf_labels_deinit(&l);
    labels_of(prices, 3, MF_TARGET_CLASS, &l);
    T_EQ(l.classes, 250001);
    mf_labels_deinit(&l);
}

MF_TEST(data_reports_whether_it_has_a_test_part)
{
    const mf_opening how = { .test = true }, part = { .test = true, .settings = "part=train" };
    mf_opened o;

    T_OK(mf_source_open("fashion-mnist", &how, &o));
    T_TRUE(o.has_test && strcmp(o.format, "fashion-mnist") == 0);
    T_EQ(mf_dataset_count(o.set), 10000);
    mf_dataset_unref(o.set);
    T_OK(mf_source_open("fashion-mnist", &part, &o)); /* the settings have priority */
    T_TRUE(!o.has_test);
    T_EQ(mf_dataset_count(o.set), 60000);
    mf_dataset_unref(o.set);
    T_OK(mf_source_open(text_file("a.csv", "a,label\n1,0\n"), &how, &o));
    T_TRUE(!o.has_test);
    mf_dataset_unref(o.set);
    done();
}

MF_TEST(settings_of_the_training_apply_to_data_of_the_same_format)
{
    const char *table = text_file("a.csv", "a;answer\n1;0\n2;1\n");
    mf_opening how = { .defaults = "delimiter=; label=a",
                       .format = "csv",
                       .settings = "label=answer" };
    mf_opened o;
    float x;
    int32_t label;

    T_OK(mf_source_open(table, &how, &o));
    T_OK(mf_dataset_read(o.set, 0, 1, (void *[]){ &x, &label }));
    T_TRUE(x == 2 && label == 1);
    mf_dataset_unref(o.set);
    how.format = "npz"; /* then they do not apply */
    T_FAILS(MF_INVALID_ARGUMENT, "has no column 'answer'", mf_source_open(table, &how, &o));
    done();
}
