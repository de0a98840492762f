/* SPDX-License-Identifier: Apache-2.0 */
/* number.h - parses numbers in text files, independent of the locale. */
#ifndef MF_FORMATS_NUMBER_H
#define MF_FORMATS_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The complete text is one number, without leading or trailing characters; else false.
 * Floats: decimal or with an exponent, "inf", "nan"; overflow gives infinity. */
bool mf_number_int(const char *text, size_t len, int64_t *out);
bool mf_number_float(const char *text, size_t len, float *out);

#endif
