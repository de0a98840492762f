/* SPDX-License-Identifier: Apache-2.0 */
/* pbtxt_read.c - protobuf text to messages.
 *
 * A recursive descent along the descriptors with one token of look-ahead. Repeated fields grow by
 * doubling inside the arena, so memory stays linear in the text. */
#include "formats/pbtxt.h"
#include "formats/pbtxt_internal.h"
#include "proto/wire.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FIELDS_MAX = 256, NAME_MAX_LEN = 127, FIRST_ELEMENTS = 4 };

typedef struct pbtxt_read_reader {
    pbtxt_lexer lex;
    mf_arena *arena;
    mf_buf scratch; /* one string or number */
} pbtxt_read_reader;

/* A message being filled. */
typedef struct target {
    const ProtobufCMessageDescriptor *desc;
    ProtobufCMessage *message;
    int depth;
    uint64_t seen[FIELDS_MAX / 64]; /* singular fields, by index */
} target;

static mf_status read_body(pbtxt_read_reader *r, target *t, char close);

/* ---- tokens ---- */

static mf_status expect(pbtxt_read_reader *r, char mark)
{
    if (!mf_pbtxt_at_mark(&r->lex, mark))
        return mf_pbtxt_fail(&r->lex, "expected '%c' instead of '%.*s'", mark,
                             (int)(r->lex.len < 40 ? r->lex.len : 40), r->lex.text);
    return mf_pbtxt_lex_next(&r->lex);
}

/* Take the mark if it is next. */
static mf_status pbtxt_read_accept(pbtxt_read_reader *r, char mark, bool *taken)
{
    *taken = mf_pbtxt_at_mark(&r->lex, mark);
    return *taken ? mf_pbtxt_lex_next(&r->lex) : MF_OK;
}

static bool at_word(const pbtxt_read_reader *r, const char *word)
{
    return r->lex.token == PBTXT_NAME && strlen(word) == r->lex.len &&
           strncasecmp(word, r->lex.text, r->lex.len) == 0;
}

/* ---- values ---- */

/* Decimal, 0x hexadecimal or 0 octal; false for anything else and for more than 64 bits. */
static bool parse_magnitude(const char *s, size_t len, uint64_t *out)
{
    uint64_t base = 10, v = 0;
    size_t i = 0;

    if (len > 1 && s[0] == '0') {
        const bool hex = s[1] == 'x' || s[1] == 'X';

        base = hex ? 16 : 8;
        i = hex ? 2 : 1;
    }
    if (i == len)
        return false;
    for (; i < len; i++) {
        const char c = s[i];
        const uint64_t digit = c >= '0' && c <= '9'   ? (uint64_t)(c - '0')
                               : c >= 'a' && c <= 'f' ? (uint64_t)(c - 'a' + 10)
                               : c >= 'A' && c <= 'F' ? (uint64_t)(c - 'A' + 10)
                                                      : 16;

        if (digit >= base || __builtin_mul_overflow(v, base, &v) ||
            __builtin_add_overflow(v, digit, &v))
            return false;
    }
    *out = v;
    return true;
}

/* An integer in [-most_negative, most]; *out is its two's complement. */
static mf_status read_integer(pbtxt_read_reader *r, uint64_t most_negative, uint64_t most,
                              uint64_t *out)
{
    bool negative;
    uint64_t v = 0;

    MF_TRY(pbtxt_read_accept(r, '-', &negative));
    if (r->lex.token != PBTXT_NUMBER || !parse_magnitude(r->lex.text, r->lex.len, &v))
        return mf_pbtxt_fail(&r->lex, "expected an integer");
    if (v > (negative ? most_negative : most))
        return mf_pbtxt_fail(&r->lex, "the integer is out of range");
    *out = negative ? 0 - v : v;
    return mf_pbtxt_lex_next(&r->lex);
}

static mf_status read_bool(pbtxt_read_reader *r, protobuf_c_boolean *out)
{
    uint64_t v;

    if (r->lex.token == PBTXT_NUMBER) {
        MF_TRY(read_integer(r, 0, 1, &v));
        *out = v != 0;
        return MF_OK;
    }
    *out = at_word(r, "true") || at_word(r, "t");
    if (!*out && !at_word(r, "false") && !at_word(r, "f"))
        return mf_pbtxt_fail(&r->lex, "expected true or false");
    return mf_pbtxt_lex_next(&r->lex);
}

/* strtod() in the C locale, which pbtxt_read_text() has set. */
static mf_status pbtxt_read_parse_float(pbtxt_read_reader *r, double *out)
{
    const char *s = r->lex.text;
    size_t len = r->lex.len;
    char *end;

    if (len > 1 && (s[len - 1] == 'f' || s[len - 1] == 'F'))
        len--;
    for (size_t i = 0; i < len; i++) {
        if (!memchr("0123456789.eE+-", s[i], 15))
            return mf_pbtxt_fail(&r->lex, "expected a number"); /* strtod() accepts more forms */
    }
    r->scratch.len = 0;
    mf_buf_bytes(&r->scratch, s, len);
    MF_TRY(mf_buf_finish(&r->scratch));
    *out = strtod(r->scratch.data, &end);
    if (*end != '\0')
        return mf_pbtxt_fail(&r->lex, "expected a number");
    return MF_OK;
}

static mf_status read_float(pbtxt_read_reader *r, double *out)
{
    bool negative;

    MF_TRY(pbtxt_read_accept(r, '-', &negative));
    if (at_word(r, "inf") || at_word(r, "infinity"))
        *out = __builtin_inf();
    else if (at_word(r, "nan"))
        *out = __builtin_nan("");
    else if (r->lex.token == PBTXT_NUMBER)
        MF_TRY(pbtxt_read_parse_float(r, out));
    else
        return mf_pbtxt_fail(&r->lex, "expected a number");
    if (negative)
        *out = -*out;
    return mf_pbtxt_lex_next(&r->lex);
}

/* Joins adjacent strings. The result is in r->scratch. */
static mf_status read_joined(pbtxt_read_reader *r)
{
    if (r->lex.token != PBTXT_STRING)
        return mf_pbtxt_fail(&r->lex, "expected a string");
    r->scratch.len = 0;
    while (r->lex.token == PBTXT_STRING) {
        MF_TRY(mf_pbtxt_unquote(&r->lex, &r->scratch));
        MF_TRY(mf_pbtxt_lex_next(&r->lex));
    }
    return mf_buf_finish(&r->scratch);
}

static mf_status pbtxt_read_string(pbtxt_read_reader *r, char **out)
{
    const pbtxt_lexer start = r->lex;

    MF_TRY(read_joined(r));
    if (mf_utf8_span(r->scratch.data, r->scratch.len) < r->scratch.len)
        return mf_pbtxt_fail(&start, "the string is not UTF-8");
    if (r->scratch.len > 0 && memchr(r->scratch.data, 0, r->scratch.len))
        return mf_pbtxt_fail(&start, "the string contains a NUL byte");
    *out = mf_arena_strndup(r->arena, r->scratch.len > 0 ? r->scratch.data : "", r->scratch.len);
    return *out ? MF_OK : MF_NOMEM("a string");
}

static mf_status pbtxt_read_bytes(pbtxt_read_reader *r, ProtobufCBinaryData *out)
{
    MF_TRY(read_joined(r));
    *out = (ProtobufCBinaryData){ .len = r->scratch.len };
    if (out->len == 0)
        return MF_OK;
    out->data = (uint8_t *)mf_arena_strndup(r->arena, r->scratch.data, out->len);
    return out->data ? MF_OK : MF_NOMEM("bytes");
}

static mf_status read_dtype(pbtxt_read_reader *r, int32_t *out)
{
    if (!mf_pbtxt_dtype_find(r->lex.text, r->lex.len, out))
        return mf_pbtxt_fail(&r->lex, "'%.*s' is not an element type",
                             (int)(r->lex.len < 40 ? r->lex.len : 40), r->lex.text);
    return mf_pbtxt_lex_next(&r->lex);
}

static mf_status read_enum(pbtxt_read_reader *r, const ProtobufCEnumDescriptor *desc, int32_t *out)
{
    char name[NAME_MAX_LEN + 1] = { 0 };
    const ProtobufCEnumValue *value;

    memcpy(name, r->lex.text, r->lex.len < NAME_MAX_LEN ? r->lex.len : NAME_MAX_LEN);
    value = protobuf_c_enum_descriptor_get_value_by_name(desc, name);
    if (!value)
        return mf_pbtxt_fail(&r->lex, "%s has no value '%s'", desc->short_name, name);
    *out = value->value;
    return mf_pbtxt_lex_next(&r->lex);
}

static mf_status read_int32(pbtxt_read_reader *r, const target *t,
                            const ProtobufCFieldDescriptor *field, int32_t *out)
{
    uint64_t v;

    if (r->lex.token == PBTXT_NAME && field->type == PROTOBUF_C_TYPE_ENUM)
        return read_enum(r, field->descriptor, out);
    if (r->lex.token == PBTXT_NAME && mf_pbtxt_is_dtype(t->desc, field))
        return read_dtype(r, out);
    MF_TRY(read_integer(r, (uint64_t)1 << 31, INT32_MAX, &v));
    *out = (int32_t)(int64_t)v;
    return MF_OK;
}

/* Reads { ... } or < ... > into a new message. */
static mf_status pbtxt_read_message(pbtxt_read_reader *r, const ProtobufCMessageDescriptor *desc,
                                    int depth, ProtobufCMessage **out)
{
    const bool angle = mf_pbtxt_at_mark(&r->lex, '<');
    target t = { .desc = desc, .depth = depth };

    if (depth > MF_PBTXT_DEPTH)
        return mf_pbtxt_fail(&r->lex, "messages are nested more than %d deep", MF_PBTXT_DEPTH);
    MF_TRY(expect(r, angle ? '<' : '{'));
    t.message = mf_arena_alloc(r->arena, 1, desc->sizeof_message);
    if (!t.message)
        return MF_NOMEM("a message");
    protobuf_c_message_init(desc, t.message);
    MF_TRY(read_body(r, &t, angle ? '>' : '}'));
    *out = t.message;
    return MF_OK;
}

/* Reads one value into its field. */
static mf_status pbtxt_read_value(pbtxt_read_reader *r, const target *t,
                                  const ProtobufCFieldDescriptor *field, void *place)
{
    uint64_t v;
    double d;

    switch (field->type) {
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_ENUM:
        return read_int32(r, t, field, place);
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_FIXED32:
        MF_TRY(read_integer(r, 0, UINT32_MAX, &v));
        *(uint32_t *)place = (uint32_t)v;
        return MF_OK;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
        return read_integer(r, (uint64_t)1 << 63, INT64_MAX, place);
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
        return read_integer(r, 0, UINT64_MAX, place);
    case PROTOBUF_C_TYPE_FLOAT:
        MF_TRY(read_float(r, &d));
        *(float *)place = (float)d;
        return MF_OK;
    case PROTOBUF_C_TYPE_DOUBLE:
        return read_float(r, place);
    case PROTOBUF_C_TYPE_BOOL:
        return read_bool(r, place);
    case PROTOBUF_C_TYPE_STRING:
        return pbtxt_read_string(r, place);
    case PROTOBUF_C_TYPE_BYTES:
        return pbtxt_read_bytes(r, place);
    case PROTOBUF_C_TYPE_MESSAGE:
        return pbtxt_read_message(r, field->descriptor, t->depth + 1, place);
    }
    return MF_FAIL(MF_INTERNAL, "field '%s' has an unknown type", field->name);
}

/* ---- fields ---- */

/* Room for one more element; full arrays have 4, 8, 16, ... elements. */
static mf_status append_value(pbtxt_read_reader *r, const target *t,
                              const ProtobufCFieldDescriptor *field)
{
    char *base = (char *)t->message;
    size_t *n = (size_t *)(void *)(base + field->quantifier_offset);
    char **array = (char **)(void *)(base + field->offset);
    const size_t size = mf_wire_element_size(field->type);

    if (*n == 0 || (*n >= FIRST_ELEMENTS && (*n & (*n - 1)) == 0)) {
        const size_t cap = *n == 0 ? FIRST_ELEMENTS : *n * 2;
        char *grown = mf_arena_alloc(r->arena, (int64_t)cap, size);

        if (!grown)
            return MF_NOMEM("a repeated field");
        if (*n > 0)
            memcpy(grown, *array, *n * size);
        *array = grown;
    }
    MF_TRY(pbtxt_read_value(r, t, field, *array + *n * size));
    ++*n;
    return MF_OK;
}

static mf_status read_repeated(pbtxt_read_reader *r, const target *t,
                               const ProtobufCFieldDescriptor *field)
{
    bool list, more;

    MF_TRY(pbtxt_read_accept(r, '[', &list));
    if (!list)
        return append_value(r, t, field);
    MF_TRY(pbtxt_read_accept(r, ']', &more));
    if (more)
        return MF_OK;
    do {
        MF_TRY(append_value(r, t, field));
        MF_TRY(pbtxt_read_accept(r, ',', &more));
    } while (more);
    return expect(r, ']');
}

static bool is_oneof(const ProtobufCFieldDescriptor *field)
{
    return (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

static mf_status read_singular(pbtxt_read_reader *r, target *t,
                               const ProtobufCFieldDescriptor *field, const pbtxt_lexer *name)
{
    char *base = (char *)t->message;
    const unsigned index = (unsigned)(field - t->desc->fields);
    uint32_t *present = (uint32_t *)(void *)(base + field->quantifier_offset);

    if (t->seen[index / 64] >> (index % 64) & 1)
        return mf_pbtxt_fail(name, "'%s' is given twice", field->name);
    if (is_oneof(field) && *present != 0)
        return mf_pbtxt_fail(name, "'%s' and '%s' exclude each other", field->name,
                             protobuf_c_message_descriptor_get_field(t->desc, *present)->name);
    t->seen[index / 64] |= (uint64_t)1 << (index % 64);
    MF_TRY(pbtxt_read_value(r, t, field, base + field->offset));
    if (is_oneof(field))
        *present = field->id;
    else if (field->quantifier_offset != 0)
        *(protobuf_c_boolean *)present = 1;
    return MF_OK;
}

/* Skip the value of an unknown field. */
static mf_status pbtxt_read_skip_value(pbtxt_read_reader *r, int depth)
{
    const char open = r->lex.token == PBTXT_MARK ? r->lex.text[0] : '\0';
    const char close = open == '{' ? '}' : open == '<' ? '>' : open == '[' ? ']' : '\0';

    if (depth > MF_PBTXT_DEPTH)
        return mf_pbtxt_fail(&r->lex, "messages are nested more than %d deep", MF_PBTXT_DEPTH);
    if (close == '\0') {
        bool sign;

        MF_TRY(pbtxt_read_accept(r, '-', &sign));
        if (r->lex.token == PBTXT_STRING)
            return read_joined(r);
        if (r->lex.token != PBTXT_NAME && r->lex.token != PBTXT_NUMBER)
            return mf_pbtxt_fail(&r->lex, "expected a value");
        return mf_pbtxt_lex_next(&r->lex);
    }
    MF_TRY(mf_pbtxt_lex_next(&r->lex));
    while (!mf_pbtxt_at_mark(&r->lex, close)) {
        const bool nested = mf_pbtxt_at_mark(&r->lex, '{') || mf_pbtxt_at_mark(&r->lex, '<') ||
                            mf_pbtxt_at_mark(&r->lex, '[');

        if (r->lex.token == PBTXT_END)
            return mf_pbtxt_fail(&r->lex, "expected '%c' before the end of the text", close);
        MF_TRY(nested ? pbtxt_read_skip_value(r, depth + 1) : mf_pbtxt_lex_next(&r->lex));
    }
    return mf_pbtxt_lex_next(&r->lex);
}

static mf_status read_field(pbtxt_read_reader *r, target *t)
{
    const pbtxt_lexer name_at = r->lex;
    const ProtobufCFieldDescriptor *field;
    char name[NAME_MAX_LEN + 1] = { 0 };
    bool colon, message;

    if (r->lex.token != PBTXT_NAME)
        return mf_pbtxt_fail(&r->lex, "expected the name of a field of %s", t->desc->short_name);
    memcpy(name, r->lex.text, r->lex.len < NAME_MAX_LEN ? r->lex.len : NAME_MAX_LEN);
    field = protobuf_c_message_descriptor_get_field_by_name(t->desc, name);
    if (!field && !mf_pbtxt_is_skipped(t->desc, name))
        return mf_pbtxt_fail(&r->lex, "%s has no field '%s'", t->desc->short_name, name);
    MF_TRY(mf_pbtxt_lex_next(&r->lex));
    MF_TRY(pbtxt_read_accept(r, ':', &colon));
    message = mf_pbtxt_at_mark(&r->lex, '{') || mf_pbtxt_at_mark(&r->lex, '<') ||
              (mf_pbtxt_at_mark(&r->lex, '[') && field && field->type == PROTOBUF_C_TYPE_MESSAGE);
    if (!colon && !message)
        return mf_pbtxt_fail(&r->lex, "expected ':' or '{' after '%s'", name);
    if (!field)
        return pbtxt_read_skip_value(r, t->depth + 1);
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return read_repeated(r, t, field);
    return read_singular(r, t, field, &name_at);
}

/* Reads fields up to and including `close`; '\0' is the end of the text. */
static mf_status read_body(pbtxt_read_reader *r, target *t, char close)
{
    bool separator;

    MF_ASSERT(t->desc->n_fields <= FIELDS_MAX);
    for (;;) {
        if (r->lex.token == PBTXT_END && close == '\0')
            return MF_OK;
        if (r->lex.token == PBTXT_END)
            return mf_pbtxt_fail(&r->lex, "expected '%c' before the end of the text", close);
        if (close != '\0' && mf_pbtxt_at_mark(&r->lex, close))
            return mf_pbtxt_lex_next(&r->lex);
        MF_TRY(read_field(r, t));
        MF_TRY(pbtxt_read_accept(r, ',', &separator));
        if (!separator)
            MF_TRY(pbtxt_read_accept(r, ';', &separator));
    }
}

static mf_status pbtxt_read_text(pbtxt_read_reader *r, target *t, const char *text, size_t len)
{
    MF_TRY(mf_pbtxt_lex_init(&r->lex, text, len));
    return read_body(r, t, '\0');
}

mf_status mf_pbtxt_decode(const ProtobufCMessageDescriptor *desc, const char *text, size_t len,
                          mf_arena *arena, ProtobufCMessage **out)
{
    pbtxt_read_reader r = { .arena = arena };
    target t = { .desc = desc, .depth = 1 };
    mf_status st;

    *out = NULL;
    t.message = mf_arena_alloc(arena, 1, desc->sizeof_message);
    if (!t.message)
        return MF_NOMEM("a message");
    protobuf_c_message_init(desc, t.message);
    MF_TRY_TO(done, pbtxt_read_text(&r, &t, text, len));
    *out = t.message;

done:
    mf_buf_deinit(&r.scratch);
    return st;
}
