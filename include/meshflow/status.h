/* SPDX-License-Identifier: Apache-2.0 */
/* status.h - result codes and the error record of the calling thread.
 *
 * Every function that can fail returns an mf_status. The codes equal gRPC's, so a status crosses
 * the wire unchanged. The message of a failure and the places it passed through are in a fixed-size
 * record of the calling thread: it needs no freeing and works when memory is exhausted. */
#ifndef MESHFLOW_STATUS_H
#define MESHFLOW_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#define MF_API __attribute__((visibility("default")))
#define MF_MUST __attribute__((warn_unused_result))

typedef enum mf_status {
    MF_OK = 0,
    MF_CANCELLED = 1,
    MF_UNKNOWN = 2,
    MF_INVALID_ARGUMENT = 3,
    MF_DEADLINE_EXCEEDED = 4,
    MF_NOT_FOUND = 5,
    MF_ALREADY_EXISTS = 6,
    MF_PERMISSION_DENIED = 7,
    MF_RESOURCE_EXHAUSTED = 8,
    MF_FAILED_PRECONDITION = 9,
    MF_ABORTED = 10,
    MF_OUT_OF_RANGE = 11,
    MF_UNIMPLEMENTED = 12,
    MF_INTERNAL = 13,
    MF_UNAVAILABLE = 14,
    MF_DATA_LOSS = 15,
    MF_UNAUTHENTICATED = 16,
} mf_status;

/* "INVALID_ARGUMENT" for MF_INVALID_ARGUMENT; "UNKNOWN" for an invalid code. */
MF_API const char *mf_status_name(mf_status status);

/* The message of the calling thread's newest failure; "" before the first.
 * Owns: borrowed until this thread's next failing call. */
MF_API const char *mf_error_message(void);

/* The place of that failure and the places it passed through, one "    at file:line function" line
 * each. */
MF_API const char *mf_error_trace(void);

#ifdef __cplusplus
}
#endif
#endif
