/* The answer about a run that ended out of memory, in rows that have its words and are described once. */
#pragma once

#include "analysis/oom/oom.h"
#include "answer/row.h"

/* The refused request and the memory that there was. */
struct mt_oom_request_row {
    struct mt_refusal refusal; /* its groups are borrowed */
    struct mt_label_row label;
    int64_t step;
    int64_t capacity_bytes, left_bytes; /* of the device; -1: the trace does not say */
    uint64_t limit_bytes;
};

/* Holes that could not serve for one reason. */
struct mt_oom_hole_row {
    struct mt_hole_group group;
    const char *reason, *pool;
    const char *segments; /* that they are in */
    struct mt_text why;   /* a sentence */
};

/* A change that would have sufficed. Invariant: it has either a command or a hint. */
struct mt_oom_change_row {
    int64_t number; /* from 1 */
    mt_oom_proof proof;
    const char *proof_name, *pattern; /* pattern: NULL but for a finding's */
    struct mt_text change, command, hint;
    uint64_t reserved_bytes, room_bytes;
};

/* Ownership: the texts and the rows of holes and changes. The rest is borrowed from the answer. */
struct mt_oom_row {
    struct mt_oom_request_row request;
    struct mt_text verdict; /* if a limit refused, if too few bytes were free, or none in one piece */
    struct mt_oom_hole_row *holes;
    size_t hole_count;
    struct mt_oom_shares roles, categories, places;
    struct mt_oom_change_row *changes;
    size_t change_count;
    int64_t needs_bytes; /* -1: not known */
    bool is_reproduced;
    const char *smallest_card;
    struct mt_observations observations; /* borrowed */
};

/* True if the trace says how much memory the device has. */
static inline bool mt_oom_knows_capacity(const struct mt_oom_answer *answer)
{
    return answer->question->run->capacity_bytes > 0;
}

/* True if the trace says what the device had free when it refused. */
static inline bool mt_oom_knows_free(const struct mt_oom_answer *answer)
{
    return answer->refusal.device_free_bytes >= 0;
}

/* Describe the rows. Tables have as fields of their own the number of a change and the segments and reason of holes. */
extern const struct mt_row_type mt_oom_type, mt_oom_hole_type, mt_oom_change_type;

/* Puts the answer into rows. Release them. */
void mt_oom_row_create(const struct mt_oom_answer *answer, struct mt_oom_row *out);
void mt_oom_row_release(struct mt_oom_row *row);

/* Returns the answer as memtrace.oom/1; the caller releases it. */
json_t *mt_oom_json(const struct mt_oom_answer *answer);
