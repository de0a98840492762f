/* SPDX-License-Identifier: Apache-2.0 */
/* string_regex.c - regular expressions, by PCRE2.
 *
 * TensorFlow's are RE2's. PCRE2 supports more; what RE2 rejects because it cannot be matched in
 * linear time (back references, lookaround) is rejected here, too, and a limit ends matches that
 * take too long for other reasons. */
#include "base/mem.h"
#include "ops/string/tensor_text.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum { MATCH_LIMIT = 10 * 1000 * 1000, GROUPS = 10 };

typedef struct regex {
    pcre2_general_context *memory; /* its memory is charged to the step */
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *context;
    uint32_t groups; /* number of capturing groups */
} regex;

static void regex_deinit(regex *r)
{
    pcre2_match_data_free(r->match);
    pcre2_match_context_free(r->context);
    pcre2_code_free(r->code);
    pcre2_general_context_free(r->memory);
}

static void *take_memory(size_t bytes, void *ctx)
{
    (void)ctx;
    return mf_calloc((int64_t)bytes, 1);
}

static void give_memory(void *block, void *ctx)
{
    (void)ctx;
    mf_free(block);
}

/* Syntax that is valid in PCRE2 but not in RE2: "(?=", "(?!", "(?<=", "(?>", "(?|", "(?R)", "(*",
 * "\1", "\k". Possessive repetition is harmless. NULL: none. */
static const char *refused_part(const char *p, const char *end)
{
    bool in_class = false;

    for (; p < end; p++) {
        if (*p == '\\' && p + 1 < end) {
            p++;
            if (!in_class && (strchr("123456789kgXRKGZ", *p) && *p))
                return "invalid escape sequence";
            if (*p == 'Q') { /* literal text up to \E */
                const char *close = strstr(p, "\\E");

                p = close && close < end ? close + 1 : end - 1;
            }
        } else if (in_class) {
            in_class = *p != ']';
        } else if (*p == '[') {
            in_class = true;
            if (p + 1 < end && p[1] == '^')
                p++;
            if (p + 1 < end && p[1] == ']') /* a bracket in first position is literal */
                p++;
        } else if (*p == '(' && p + 1 < end && p[1] == '*') {
            return "missing argument to repetition operator";
        } else if (*p == '(' && p + 2 < end && p[1] == '?') {
            const bool named = p[2] == 'P' ? p + 3 < end && p[3] == '<'
                                           : p[2] == '<' && p + 3 < end && !strchr("=!", p[3]);

            if (!named && !strchr(":imsU-", p[2]))
                return "invalid perl operator";
        }
    }
    return NULL;
}

static mf_status regex_init(regex *r, const char *pattern, size_t len)
{
    const char *refused = refused_part(pattern, pattern + len);
    PCRE2_UCHAR message[160] = "";
    PCRE2_SIZE offset;
    int code;

    *r = (regex){ 0 };
    if (refused)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Invalid pattern: %.*s, error: %s",
                       len > 300 ? 300 : (int)len, pattern, refused);
    r->memory = pcre2_general_context_create(take_memory, give_memory, NULL);
    r->code = pcre2_compile((PCRE2_SPTR)pattern, len,
                            PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_DOLLAR_ENDONLY |
                                PCRE2_NEVER_BACKSLASH_C,
                            &code, &offset, NULL);
    if (!r->code) {
        regex_deinit(r);
        (void)pcre2_get_error_message(code, message, sizeof message);
        return MF_FAIL(MF_INVALID_ARGUMENT, "Invalid pattern: %.*s, error: %s",
                       len > 300 ? 300 : (int)len, pattern, (const char *)message);
    }
    r->match = pcre2_match_data_create_from_pattern(r->code, r->memory);
    r->context = pcre2_match_context_create(r->memory);
    if (!r->memory || !r->match || !r->context) {
        regex_deinit(r);
        return MF_NOMEM("a regular expression");
    }
    (void)pcre2_set_match_limit(r->context, MATCH_LIMIT);
    (void)pcre2_pattern_info(r->code, PCRE2_INFO_CAPTURECOUNT, &r->groups);
    return MF_OK;
}

/* *found: the string matches from `at` on; the bounds of the match are in the match data. */
static mf_status regex_match(const regex *r, const mf_string *s, size_t at, uint32_t options,
                             bool *found)
{
    int rc;

    MF_TRY(mf_stop_after(1000 + (int64_t)(s->len - at)));
    rc = pcre2_match(r->code, (PCRE2_SPTR)mf_string_data(s), s->len, at, options, r->match,
                     r->context);
    *found = rc >= 0;
    if (rc >= 0 || rc == PCRE2_ERROR_NOMATCH)
        return MF_OK;
    return MF_FAIL(MF_RESOURCE_EXHAUSTED, "matching a regular expression took too much (PCRE2: %d)",
                   rc);
}

/* ---- full match ---- */

static mf_status match_all(mf_kernel *k, const mf_string *pattern)
{
    mf_tensor *out;
    mf_status st;
    regex r;

    MF_TRY(regex_init(&r, mf_string_data(pattern), pattern->len));
    MF_TRY_TO(done, mf_kernel_out(k, 0, &k->in[0]->shape, &out));
    for (int64_t i = 0; i < out->count; i++) {
        bool found;

        MF_TRY_TO(done, regex_match(&r, &mf_strings(k->in[0])[i], 0,
                                    PCRE2_ANCHORED | PCRE2_ENDANCHORED, &found));
        ((uint8_t *)out->data)[i] = found;
    }

done:
    regex_deinit(&r);
    return st;
}

static mf_string attr_string(const mf_node *node, const char *name)
{
    const mf_attr *a = mf_node_attr(node, name);

    return (mf_string){ .data = (char *)(uintptr_t)a->s.data, .len = a->s.len };
}

static mf_status static_match_run(mf_kernel *k)
{
    const mf_string pattern = attr_string(k->node, "pattern");

    return match_all(k, &pattern);
}

static mf_status string_regex_match_run(mf_kernel *k)
{
    char text[MF_SHAPE_TEXT];

    if (k->in[1]->shape.rank != 0)
        return MF_FAIL(MF_INVALID_ARGUMENT, "Pattern must be scalar, but received %s",
                       mf_shape_text(&k->in[1]->shape, text));
    return match_all(k, mf_strings(k->in[1]));
}

/* ---- replace ---- */

/* Expands the replacement for the match: "\0" to "\9" are the groups, "\\" is a backslash. Stops at
 * anything else, as RE2 does. */
static void string_regex_rewrite(const regex *r, const mf_string *s, const mf_string *with,
                                 mf_buf *out)
{
    const PCRE2_SIZE *limits = pcre2_get_ovector_pointer(r->match);

    for (size_t i = 0; i < with->len; i++) {
        const char c = with->data[i], next = i + 1 < with->len ? with->data[i + 1] : '\0';

        if (c != '\\') {
            mf_buf_bytes(out, &c, 1);
        } else if (next >= '0' && next <= '9') {
            const uint32_t g = (uint32_t)(next - '0');

            if (limits[2 * g] != PCRE2_UNSET)
                mf_buf_bytes(out, mf_string_data(s) + limits[2 * g],
                             limits[2 * g + 1] - limits[2 * g]);
            i++;
        } else if (next == '\\') {
            mf_buf_bytes(out, &c, 1);
            i++;
        } else {
            return;
        }
    }
}

/* The highest group in a replacement; *valid is false if it has an unknown escape. */
static uint32_t highest_group(const mf_string *with, bool *valid)
{
    uint32_t top = 0;

    *valid = true;
    for (size_t i = 0; i + 1 < with->len; i++) {
        if (with->data[i] != '\\')
            continue;
        i++;
        if (with->data[i] >= '0' && with->data[i] <= '9' && (uint32_t)(with->data[i] - '0') > top)
            top = (uint32_t)(with->data[i] - '0');
        else if (with->data[i] != '\\' && (with->data[i] < '0' || with->data[i] > '9'))
            *valid = false;
    }
    return top;
}

static mf_status string_regex_replace(const regex *r, const mf_string *s, const mf_string *with,
                                      bool global, mf_buf *out)
{
    const PCRE2_SIZE *limits = pcre2_get_ovector_pointer(r->match);
    const char *data = mf_string_data(s);
    size_t at = 0, last_end = SIZE_MAX;
    bool found = true;

    while (at <= s->len) {
        MF_TRY(regex_match(r, s, at, 0, &found));
        if (!found)
            break;
        const size_t from = limits[0], to = limits[1];

        mf_buf_bytes(out, data + at, from - at);
        at = from;
        if (from == to && from == last_end) { /* no empty match directly after another match */
            if (at == s->len)
                return MF_OK;
            do
                mf_buf_bytes(out, data + at++, 1);
            while (at < s->len && ((unsigned char)data[at] & 0xc0) == 0x80);
            continue;
        }
        string_regex_rewrite(r, s, with, out);
        at = last_end = to;
        if (!global)
            break;
    }
    if (at < s->len)
        mf_buf_bytes(out, data + at, s->len - at);
    return MF_OK;
}

static mf_status string_regex_replace_all(mf_kernel *k, const mf_string *pattern,
                                          const mf_string *with)
{
    const bool global = mf_node_bool(k->node, "replace_global");
    bool valid;
    const uint32_t highest = highest_group(with, &valid);
    mf_buf buf = { 0 };
    mf_tensor *out;
    mf_status st;
    regex r;

    MF_TRY(regex_init(&r, mf_string_data(pattern), pattern->len));
    MF_TRY_TO(done, mf_kernel_out(k, 0, &k->in[0]->shape, &out));
    for (int64_t i = 0; i < out->count; i++) {
        const mf_string *s = &mf_strings(k->in[0])[i];

        if (highest > r.groups || (!valid && !global)) /* as in RE2: nothing is replaced */
            mf_buf_bytes(&buf, mf_string_data(s), s->len);
        else
            MF_TRY_TO(done, string_regex_replace(&r, s, with, global, &buf));
        MF_TRY_TO(done, mf_string_take(&((mf_string *)out->data)[i], &buf));
    }

done:
    mf_buf_deinit(&buf);
    regex_deinit(&r);
    return st;
}

static mf_status static_replace_run(mf_kernel *k)
{
    const mf_string pattern = attr_string(k->node, "pattern"),
                    with = attr_string(k->node, "rewrite");

    return string_regex_replace_all(k, &pattern, &with);
}

static mf_status replace_run(mf_kernel *k)
{
    char text[MF_SHAPE_TEXT];

    for (int i = 1; i < 3; i++) {
        if (k->in[i]->shape.rank != 0)
            return MF_FAIL(MF_INVALID_ARGUMENT, "%s must be scalar, but received %s",
                           i == 1 ? "Pattern" : "Rewrite", mf_shape_text(&k->in[i]->shape, text));
    }
    return string_regex_replace_all(k, mf_strings(k->in[1]), mf_strings(k->in[2]));
}

#define REGEX_OP(NAME, DEF, GRAD, RUN, ...)                                                        \
    {                                                                                              \
        .name = NAME, .def = DEF, .infer = mf_infer_same, .grad = GRAD, .run = RUN,                \
        .samples = MF_SAMPLES(__VA_ARGS__)                                                         \
    }

const mf_op mf_ops_string_regex[] = {
    REGEX_OP("StaticRegexFullMatch", "(input:string) -> (output:bool) {pattern:string}",
             mf_grad_missing, static_match_run, "str[3]{hello,hell,} ; pattern='hel+o.*'",
             "str[0] ; pattern='a'", "str[] ; pattern='[a-z]*'", "str[1] ; pattern='(' !fails"),
    REGEX_OP("RegexFullMatch", "(input:string, pattern:string) -> (output:bool) {}",
             mf_grad_missing, string_regex_match_run, "str[3]{hello,hell,} str[]{hel+o.*}",
             "str[1] str[1]{a} !fails", "str[1] str[]{(?=a)} !fails"),
    REGEX_OP("StaticRegexReplace",
             "(input:string) -> (output:string) {pattern:string, rewrite:string, "
             "replace_global:bool=true}",
             mf_grad_missing, static_replace_run, "str[3]{foo,boo,} ; pattern='o' rewrite='00'",
             "str[2]{foo,bob} ; pattern='o' rewrite='0' replace_global=false",
             "str[2]{abab,b} ; pattern='b*' rewrite='-'"),
    REGEX_OP("RegexReplace",
             "(input:string, pattern:string, rewrite:string) -> (output:string) "
             "{replace_global:bool=true}",
             mf_grad_none, replace_run, "str[2]{foo,boo} str[]{o+} str[]{0}",
             "str[1]{abab} str[]{(a)(b)} str[]{\\2\\1}", "str[1]{ab} str[]{a} str[]{\\1}",
             "str[1] str[]{a**} str[]{x} !fails"),
    { 0 },
};
