/* SPDX-License-Identifier: Apache-2.0 */
/* compress_settings.c - printed settings parse to the same struct. */
#include "compress/compress_settings.h"

#include "mf_test.h"

MF_TEST(compress_units_settings_survive_printing)
{
    mf_arena *arena = mf_arena_new();
    mf_units_settings a, b;
    mf_buf text = { 0 };

    T_OK(mf_units_settings_parse("share=0.3 layers='conv*, dense'", arena, &a));
    mf_units_settings_text(&a, &text);
    T_OK(mf_units_settings_parse(text.data, arena, &b));
    T_EQ_F(b.share, a.share);
    T_STREQ(b.layers, "conv*, dense");
    T_FAILS(MF_INVALID_ARGUMENT, "units: share=1", mf_units_settings_parse("share=1.0", arena, &a));
    mf_buf_deinit(&text);
    mf_arena_free(arena);
}

MF_TEST(compress_rank_settings_survive_printing)
{
    static const char *const texts[] = { "16", "rank=3 layers=dense", "energy=0.95 layers=conv*" };
    mf_arena *arena = mf_arena_new();

    for (int i = 0; i < MF_COUNT(texts); i++) {
        mf_rank_settings a, b;
        mf_buf text = { 0 };

        T_OK(mf_rank_settings_parse(texts[i], arena, &a));
        mf_rank_settings_text(&a, &text);
        T_OK(mf_rank_settings_parse(text.data, arena, &b));
        T_EQ(b.rank, a.rank);
        T_EQ_F(b.energy, a.energy);
        T_STREQ(b.layers, a.layers);
        mf_buf_deinit(&text);
    }
    mf_arena_free(arena);
}

MF_TEST(compress_share_settings_survive_printing)
{
    mf_arena *arena = mf_arena_new();
    mf_share_settings a, b;
    mf_buf text = { 0 };

    T_OK(mf_share_settings_parse("bits=7 layers=dense*", arena, &a));
    mf_share_settings_text(&a, &text);
    T_OK(mf_share_settings_parse(text.data, arena, &b));
    T_EQ(b.bits, 7);
    T_STREQ(b.layers, "dense*");
    T_FAILS(MF_INVALID_ARGUMENT, "share: bits=13: at most 12",
            mf_share_settings_parse("bits=13", arena, &a));
    mf_buf_deinit(&text);
    mf_arena_free(arena);
}

MF_TEST(compress_quantize_settings_survive_printing)
{
    static const char *const texts[] = { "int8", "int8 per=tensor aware=true samples=7",
                                         "int8 range=mean layers=conv*" };
    mf_arena *arena = mf_arena_new();

    for (int i = 0; i < MF_COUNT(texts); i++) {
        mf_quantize_settings a, b;
        mf_buf text = { 0 };

        T_OK(mf_quantize_settings_parse(texts[i], arena, &a));
        mf_quantize_settings_text(&a, &text);
        T_OK(mf_quantize_settings_parse(text.data, arena, &b));
        T_TRUE(b.per_channel == a.per_channel && b.mean == a.mean && b.aware == a.aware);
        T_EQ(b.samples, a.samples);
        T_STREQ(b.layers, a.layers);
        mf_buf_deinit(&text);
    }
    mf_arena_free(arena);
}
