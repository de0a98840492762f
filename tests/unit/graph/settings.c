/* SPDX-License-Identifier: Apache-2.0 */
/* settings.c - settings as text, such as "units=4": parsing, printing, errors. */
#include "graph/settings.h"

#include "mf_test.h"

static const char DENSE[] =
    "{units: int >= 1, activation: string in ['linear','relu'] = 'linear', rate: float = 0.5, "
    "sizes: list(int) = [3,3], bias: bool = true, name: string = ''}";

static mf_status parse(const char *text, mf_arena *arena, mf_options *out)
{
    return mf_options_parse("Dense", DENSE, text, arena, out);
}

MF_TEST(options_use_defaults_and_given_values)
{
    mf_arena *arena = mf_arena_new();
    mf_options o;
    int64_t n;

    T_OK(parse("units=7 activation=relu, sizes=5, name='a b'", arena, &o));
    T_EQ(mf_options_int(&o, "units"), 7);
    T_STREQ(mf_options_string(&o, "activation"), "relu");
    T_EQ_F(mf_options_float(&o, "rate"), 0.5);
    T_EQ(mf_options_ints(&o, "sizes", &n)[0], 5);
    T_EQ(n, 1);
    T_TRUE(mf_options_bool(&o, "bias"));
    T_STREQ(mf_options_string(&o, "name"), "a b");
    T_TRUE(mf_options_given(&o, "units") && !mf_options_given(&o, "rate"));
    T_TRUE(mf_options_has(&o, "rate") && !mf_options_has(&o, "unit"));
    mf_arena_free(arena);
}

MF_TEST(options_name_the_error)
{
    mf_arena *arena = mf_arena_new();
    mf_options o;

    T_FAILS(MF_INVALID_ARGUMENT, "Dense needs the setting units", parse("", arena, &o));
    T_FAILS(MF_INVALID_ARGUMENT, "did you mean 'units'", parse("unit=3", arena, &o));
    T_FAILS(MF_INVALID_ARGUMENT, "at least 1", parse("units=0", arena, &o));
    T_FAILS(MF_INVALID_ARGUMENT, "one of linear, relu", parse("units=1 activation=x", arena, &o));
    T_FAILS(MF_INVALID_ARGUMENT, "Dense: units=many is not of type int",
            parse("units=many", arena, &o));
    T_FAILS(MF_INVALID_ARGUMENT, "Dense: rate=nan is out of range",
            parse("units=1 rate=nan", arena, &o));
    T_FAILS(MF_INVALID_ARGUMENT, "Dense: rate=-inf is out of range",
            parse("units=1 rate=-inf", arena, &o));
    T_FAILS(MF_INVALID_ARGUMENT, "given twice", parse("units=1 units=2", arena, &o));
    T_FAILS(MF_INVALID_ARGUMENT, "expected name=value", parse("units", arena, &o));
    mf_arena_free(arena);
}

MF_TEST(options_survive_printing)
{
    static const char *const texts[] = { "units=7", "units=1 activation=relu sizes=5 name='a b'",
                                         "name='it\\'s' units=2 rate=0.1 bias=false sizes=[]",
                                         "units=3 name=''" };
    mf_arena *arena = mf_arena_new();

    for (int i = 0; i < MF_COUNT(texts); i++) {
        mf_buf text = { 0 };
        mf_options a, b;

        T_OK(parse(texts[i], arena, &a));
        mf_options_text(&a, &text);
        T_OK(parse(text.data, arena, &b));
        for (int k = 0; k < a.n; k++) {
            T_TRUE(mf_attr_equal(&a.attrs[k].value, &b.attrs[k].value));
            T_TRUE(a.given[k] == b.given[k]);
        }
        mf_buf_deinit(&text);
    }
    mf_arena_free(arena);
}

typedef struct fruit {
    const char *name;
    int weight;
} fruit;

static const fruit fruits[] = { { "apple", 1 }, { "banana", 2 }, { 0 } };

MF_TEST(options_find_a_kind_by_its_name)
{
    static const mf_kinds kinds = { "fruit", fruits, sizeof *fruits };
    mf_arena *arena = mf_arena_new();
    const void *row;
    const char *rest;

    T_OK(mf_kinds_find(&kinds, "  banana size=3", arena, &row, &rest));
    T_EQ(((const fruit *)row)->weight, 2);
    T_STREQ(rest, " size=3");
    T_FAILS(MF_NOT_FOUND, "there is no fruit 'aple'; did you mean 'apple'?",
            mf_kinds_find(&kinds, "aple", arena, &row, &rest));
    T_FAILS(MF_NOT_FOUND, "there is no fruit 'stone'; expected one of apple, banana",
            mf_kinds_find(&kinds, "stone", arena, &row, &rest));
    T_TRUE(!row);
    mf_arena_free(arena);
}
