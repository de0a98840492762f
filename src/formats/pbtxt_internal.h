/* SPDX-License-Identifier: Apache-2.0 */
/* pbtxt_internal.h - shared by the reader and the writer of protobuf text: the lexer, and names
 * that descriptors do not have. */
#ifndef MF_FORMATS_PBTXT_INTERNAL_H
#define MF_FORMATS_PBTXT_INTERNAL_H

#include "base/buf.h"
#include "base/status.h"

#include <protobuf-c/protobuf-c.h>

/* ---- pbtxt_lex.c ---- */

typedef enum pbtxt_token {
    PBTXT_END,
    PBTXT_NAME, /* letters, digits, '_'; does not begin with a digit */
    PBTXT_NUMBER, /* begins with a digit or '.'; without sign */
    PBTXT_STRING, /* quotes included */
    PBTXT_MARK, /* any other single character */
} pbtxt_token;

/* Always holds one token of look-ahead. */
typedef struct pbtxt_lexer {
    const char *at, *end; /* after the token */
    const char *line_start; /* of the token's line */
    int64_t line; /* from 1 */
    pbtxt_token token;
    const char *text; /* of the token */
    size_t len;
} pbtxt_lexer;

/* Read the first token; advance to the next token. Fails: INVALID_ARGUMENT. */
MF_MUST mf_status mf_pbtxt_lex_init(pbtxt_lexer *lex, const char *text, size_t len);
MF_MUST mf_status mf_pbtxt_lex_next(pbtxt_lexer *lex);
/* INVALID_ARGUMENT "line 3, column 7: ..." at the current token. */
#define mf_pbtxt_fail(lex, ...) (mf_pbtxt_say((lex), __VA_ARGS__), MF_INVALID_ARGUMENT)
void mf_pbtxt_say(const pbtxt_lexer *lex, const char *fmt, ...) MF_PRINTF(2, 3)
    __attribute__((cold));
/* Append the bytes that the current string token encodes. */
MF_MUST mf_status mf_pbtxt_unquote(const pbtxt_lexer *lex, mf_buf *out);

static inline bool mf_pbtxt_at_mark(const pbtxt_lexer *lex, char c)
{
    return lex->token == PBTXT_MARK && lex->text[0] == c;
}

/* ---- pbtxt_names.c ---- */

/* An int32 field that text writes as a DT_ name. */
bool mf_pbtxt_is_dtype(const ProtobufCMessageDescriptor *desc,
                       const ProtobufCFieldDescriptor *field);
/* A field of TensorFlow that our descriptor does not have. */
bool mf_pbtxt_is_skipped(const ProtobufCMessageDescriptor *desc, const char *field);
/* The entry of a map: fields `key` and `value`. */
bool mf_pbtxt_is_map_entry(const ProtobufCMessageDescriptor *desc);

/* "DT_FLOAT" for 1, "DT_FLOAT_REF" for 101; false for unknown numbers. */
enum { PBTXT_DTYPE_TEXT = 40 };
bool mf_pbtxt_dtype_name(int32_t number, char text[PBTXT_DTYPE_TEXT]);
bool mf_pbtxt_dtype_find(const char *name, size_t len, int32_t *number);

#endif
