/* SPDX-License-Identifier: Apache-2.0 */
/* poison.h - marks bytes of a larger block that must not be accessed: gaps between pieces of an
 * arena, storage of a freed tensor. The address sanitizer then checks the pieces like blocks of
 * malloc(). Without the sanitizer these functions do nothing. */
#ifndef MF_BASE_POISON_H
#define MF_BASE_POISON_H

#include <stddef.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer) && !defined(__SANITIZE_ADDRESS__)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>

enum { MF_POISON_GAP = 64 }; /* between two pieces of a block */
#define MF_POISON(p, bytes) __asan_poison_memory_region((p), (bytes))
#define MF_UNPOISON(p, bytes) __asan_unpoison_memory_region((p), (bytes))
#else
enum { MF_POISON_GAP = 0 };
#define MF_POISON(p, bytes) ((void)(p), (void)(bytes))
#define MF_UNPOISON(p, bytes) ((void)(p), (void)(bytes))
#endif

#endif
