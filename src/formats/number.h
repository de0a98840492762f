/* SPDX-License-Identifier: Apache-2.0 */
/* number.h - numbers as text files write them. The locale has no say. */
#ifndef MF_FORMATS_NUMBER_H
#define MF_FORMATS_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The whole of the text is one number, nothing before it, nothing behind; else false.
 * Floats: decimal or with an exponent, "inf", "nan"; too large ones are infinite. */
bool mf_number_int(const char *text, size_t len, int64_t *out);
bool mf_number_float(const char *text, size_t len, float *out);

#endif
