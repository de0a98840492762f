/* SPDX-License-Identifier: Apache-2.0 */
/* shm_segment.h - memory that all members of a group see, and how they wait for each other in it.
 *
 * Time goes in turns. In a turn each member writes to its slot and says so, waits until all have,
 * reads the others' slots, and says that it has finished. There are several slots for each member,
 * used by turns, so that members can write ahead while others still read. */
#ifndef MF_COLLECTIVE_SHM_SEGMENT_H
#define MF_COLLECTIVE_SHM_SEGMENT_H

#include "collective/group.h"

#include <stdatomic.h>

enum { MF_SEGMENT_SLOTS = 8 };

/* One member's progress, in turns; a cache line of its own. */
typedef struct mf_segment_words {
    _Alignas(64) atomic_uint posted; /* has written */
    atomic_uint reduced; /* its slice of the result is there */
    atomic_uint finished; /* reads no more */
    atomic_uint sleepers; /* members that wait for one of these */
} mf_segment_words;

/* What a member came for, in front of its bytes: all must have come for the same. */
typedef struct mf_segment_slot {
    _Alignas(64) int64_t step;
    int64_t size;
    _Alignas(64) char data[];
} mf_segment_slot;

typedef struct mf_segment_header {
    uint64_t magic;
    uint32_t ranks;
    uint64_t area;
    mf_segment_words words[]; /* by rank; then their slots, then those of results */
} mf_segment_header;

struct mf_segment {
    mf_segment_header *head;
    size_t bytes;
    int ranks; /* not read from shared memory again, where others can write */
    char *name; /* NULL: none */
    int64_t area; /* bytes of a member's slots */
    int64_t room; /* bytes of data in a slot */
    bool crowded; /* more members than processors: waiting must not burn time */
};

/* Member `rank`'s slot in this turn; rank `ranks`: the common result. */
static inline mf_segment_slot *mf_segment_slot_of(const mf_segment *s, int rank, unsigned turn)
{
    const size_t head =
        (sizeof(mf_segment_header) + (size_t)s->ranks * sizeof(mf_segment_words) + 4095) &
        ~(size_t)4095;
    const size_t slot = (size_t)s->area / MF_SEGMENT_SLOTS;

    return (mf_segment_slot *)(void *)((char *)s->head + head + (size_t)rank * (size_t)s->area +
                                       turn % MF_SEGMENT_SLOTS * slot);
}

/* All slots of a member at once: `area` bytes, for those who take no turns. */
static inline void *mf_segment_area(const mf_segment *s, int rank)
{
    return mf_segment_slot_of(s, rank, 0);
}

/* Say that `word` of ours stands at `turn` now. */
void mf_segment_say(mf_segment *s, int rank, atomic_uint *word, unsigned turn);

/* Does the word stand at `turn` or later? */
static inline bool mf_segment_reached(atomic_uint *word, unsigned turn)
{
    return (int)(atomic_load_explicit(word, memory_order_acquire) - turn) >= 0;
}

/* Wait until *word of member `rank` stands at `turn` or later. */
MF_MUST mf_status mf_segment_wait(mf_segment *s, const mf_group *g, const mf_collective *c,
                                  int rank, atomic_uint *word, unsigned turn);

/* A group in a segment (shm_collectives.c), for those who put something around it. */
typedef struct mf_shm_group {
    mf_group head;
    mf_segment *seg;
    unsigned turn; /* turns begun so far */
} mf_shm_group;
void mf_shm_group_init(mf_shm_group *g, mf_segment *s, const mf_group *like);

#endif
