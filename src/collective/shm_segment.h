/* SPDX-License-Identifier: Apache-2.0 */
/* shm_segment.h - memory shared by all members of a group, and waiting in it.
 *
 * Collectives proceed in turns. In a turn each member writes to its slot and publishes it, waits
 * until all have, reads the others' slots, and announces that it has finished. Each member has
 * several slots, used in rotation, so members can write ahead while others still read. */
#ifndef MF_COLLECTIVE_SHM_SEGMENT_H
#define MF_COLLECTIVE_SHM_SEGMENT_H

#include "collective/group.h"

#include <stdatomic.h>

enum { MF_SEGMENT_SLOTS = 8 };

/* One member's progress, in turns; a separate cache line. */
typedef struct mf_segment_words {
    _Alignas(64) atomic_uint posted; /* has written */
    atomic_uint reduced; /* its slice of the result is complete */
    atomic_uint finished; /* has finished reading */
    atomic_uint sleepers; /* members that sleep on one of these words */
} mf_segment_words;

/* The collective of a member, in front of its bytes: it must be the same for all. */
typedef struct mf_segment_slot {
    _Alignas(64) int64_t step;
    int64_t size;
    _Alignas(64) char data[];
} mf_segment_slot;

typedef struct mf_segment_header {
    uint64_t magic;
    uint32_t ranks;
    uint64_t area;
    mf_segment_words words[]; /* by rank; followed by the slots, and the slots for results */
} mf_segment_header;

struct mf_segment {
    mf_segment_header *head;
    size_t bytes;
    int ranks; /* local copy: other processes can write to shared memory */
    char *name; /* NULL: none */
    int64_t area; /* bytes of a member's slots */
    int64_t room; /* bytes of data in a slot */
    bool oversubscribed; /* more members than processors: waiting must not poll */
};

/* Slot of member `rank` in this turn; rank `ranks`: the common result. */
static inline mf_segment_slot *mf_segment_slot_of(const mf_segment *s, int rank, unsigned turn)
{
    const size_t head =
        (sizeof(mf_segment_header) + (size_t)s->ranks * sizeof(mf_segment_words) + 4095) &
        ~(size_t)4095;
    const size_t slot = (size_t)s->area / MF_SEGMENT_SLOTS;

    return (mf_segment_slot *)(void *)((char *)s->head + head + (size_t)rank * (size_t)s->area +
                                       turn % MF_SEGMENT_SLOTS * slot);
}

/* All slots of a member as one area of `area` bytes, for use without turns. */
static inline void *mf_segment_area(const mf_segment *s, int rank)
{
    return mf_segment_slot_of(s, rank, 0);
}

/* Set this member's `word` to `turn`. */
void mf_segment_set(mf_segment *s, int rank, atomic_uint *word, unsigned turn);

/* Has the word reached `turn`? */
static inline bool mf_segment_reached(atomic_uint *word, unsigned turn)
{
    return (int)(atomic_load_explicit(word, memory_order_acquire) - turn) >= 0;
}

/* Wait until *word of member `rank` has reached `turn`. */
MF_MUST mf_status mf_segment_wait(mf_segment *s, const mf_group *g, const mf_collective *c,
                                  int rank, atomic_uint *word, unsigned turn);

/* A group in a segment (shm_collectives.c), for embedding. */
typedef struct mf_shm_group {
    mf_group head;
    mf_segment *seg;
    unsigned turn; /* turns begun so far */
} mf_shm_group;
void mf_shm_group_init(mf_shm_group *g, mf_segment *s, const mf_group *like);

#endif
