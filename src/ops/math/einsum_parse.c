/* SPDX-License-Identifier: Apache-2.0 */
/* einsum_parse.c - parses Einsum equations. */
#include "ops/math/einsum_parse.h"

#include <string.h>

static mf_status bad(const char *text, const char *why)
{
    return MF_FAIL(MF_INVALID_ARGUMENT, "einsum equation '%.200s': %s", text, why);
}

char mf_label_char(unsigned char label)
{
    if (label >= MF_EINSUM_LETTERS)
        return '.';
    return (char)(label < 26 ? 'a' + label : 'A' + label - 26);
}

static int letter(char c)
{
    if (c >= 'a' && c <= 'z')
        return c - 'a';
    if (c >= 'A' && c <= 'Z')
        return 26 + c - 'A';
    return -1;
}

/* Up to `end`. */
static mf_status parse_side(const char *text, const char *p, const char *end, mf_subscripts *out)
{
    bool ellipsis = false;

    *out = (mf_subscripts){ 0 };
    for (; p < end; p++) {
        int label = letter(*p);

        if (*p == ' ')
            continue;
        if (end - p >= 3 && memcmp(p, "...", 3) == 0) {
            if (ellipsis)
                return bad(text, "more than one ellipsis in a subscript");
            ellipsis = true;
            label = MF_EINSUM_ELLIPSIS;
            p += 2;
        }
        if (label < 0)
            return bad(text, "subscripts must be letters or '...'");
        if (out->n - ellipsis >= MF_MAX_RANK)
            return bad(text, "too many subscripts");
        out->label[out->n++] = (unsigned char)label;
    }
    return MF_OK;
}

mf_status mf_equation_parse(const char *text, int n_in, mf_equation *out)
{
    const char *arrow = strstr(text, "->"), *p = text;

    *out = (mf_equation){ .n_in = n_in };
    if (!arrow || strstr(arrow + 2, "->"))
        return bad(text, "expecting exactly one '->'");
    if (n_in < 1 || n_in > MF_EINSUM_INPUTS)
        return bad(text, "expecting 1 or 2 inputs");
    for (int i = 0; i < n_in; i++) {
        const char *comma = memchr(p, ',', (size_t)(arrow - p));
        const char *end = comma ? comma : arrow;

        if ((comma == NULL) != (i == n_in - 1))
            return bad(text, "the number of subscripts is not the number of inputs");
        MF_TRY(parse_side(text, p, end, &out->in[i]));
        p = end + 1;
    }
    return parse_side(text, arrow + 2, arrow + strlen(arrow), &out->out);
}

/* "..." becomes the labels of `wide` dimensions. */
static mf_status einsum_parse_expand(const mf_subscripts *s, int wide, mf_einsum_labels *out)
{
    *out = (mf_einsum_labels){ 0 };
    for (int i = 0; i < s->n; i++) {
        const bool many = s->label[i] == MF_EINSUM_ELLIPSIS;
        const int count = many ? wide : 1;

        if (out->n + count > MF_MAX_RANK)
            return MF_FAIL(MF_INVALID_ARGUMENT, "einsum: more than %d dimensions", MF_MAX_RANK);
        for (int j = count - 1; j >= 0; j--)
            out->label[out->n++] = (unsigned char)(many ? MF_EINSUM_LETTERS + j : s->label[i]);
    }
    return MF_OK;
}

static bool has_ellipsis(const mf_subscripts *s)
{
    return memchr(s->label, MF_EINSUM_ELLIPSIS, (size_t)s->n) != NULL;
}

static mf_status einsum_parse_measure(const mf_einsum_labels *l, const mf_shape *shape, int input,
                                      int64_t *size)
{
    for (int d = 0; d < l->n; d++) {
        int64_t *s = &size[l->label[d]];
        const int64_t dim = shape->dims[d];
        const bool broadcasts = l->label[d] >= MF_EINSUM_LETTERS;

        if (*s == -1 || (broadcasts && *s == 1)) {
            *s = dim < 0 && *s == 1 ? -1 : dim;
        } else if (dim >= 0 && dim != *s && !(broadcasts && dim == 1)) {
            return MF_FAIL(
                MF_INVALID_ARGUMENT,
                "einsum: dimension %d of input %d ('%c') is %lld, but it is %lld elsewhere", d,
                input, mf_label_char(l->label[d]), (long long)dim, (long long)*s);
        }
    }
    return MF_OK;
}

mf_status mf_equation_resolve(const mf_equation *eq, const mf_shape *const *shapes,
                              mf_einsum_labels in[MF_EINSUM_INPUTS], mf_einsum_labels *out,
                              int64_t size[MF_EINSUM_LABELS])
{
    bool seen[MF_EINSUM_LABELS] = { false };
    char text[MF_SHAPE_TEXT];
    int widest = 0;

    for (int i = 0; i < MF_EINSUM_LABELS; i++)
        size[i] = -1;
    for (int i = 0; i < eq->n_in; i++) {
        const bool many = has_ellipsis(&eq->in[i]);
        const int wide = shapes[i]->rank - (eq->in[i].n - many);

        if (wide < 0 || (!many && wide > 0))
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "einsum: input %d has shape %s, which does not fit %d subscripts", i,
                           mf_shape_text(shapes[i], text), eq->in[i].n - many);
        widest = many && wide > widest ? wide : widest;
        MF_TRY(einsum_parse_expand(&eq->in[i], many ? wide : 0, &in[i]));
        MF_TRY(einsum_parse_measure(&in[i], shapes[i], i, size));
        for (int d = 0; d < in[i].n; d++)
            seen[in[i].label[d]] = true;
    }
    MF_TRY(einsum_parse_expand(&eq->out, widest, out));
    for (int d = 0; d < out->n; d++) {
        if (!seen[out->label[d]])
            return MF_FAIL(MF_INVALID_ARGUMENT,
                           "einsum: output subscript '%c' is not in any of the inputs",
                           mf_label_char(out->label[d]));
    }
    return MF_OK;
}
