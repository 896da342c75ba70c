/* From which length an attention layer's memory is mostly of size T², and up to which length it fits. */
#ifndef MT_STUDY_ATTENTION_LIMITS_H
#define MT_STUDY_ATTENTION_LIMITS_H

#include "alloc/alloc.h"
#include "study/attention_study.h"

/* The longest sequence that a run can have, and the step in which longest ones are looked for. */
enum { MT_STUDY_LONGEST = 1 << 24, MT_STUDY_LENGTH_STEP = 256 };

/* The shortest sequence at which terms of size T² are more than half of what is kept, by formula; 0: there is none. */
int64_t mt_attention_square_from(const struct mt_attention_case *study);

/* Sets *out to the longest sequence, in steps of MT_STUDY_LENGTH_STEP, whose forward and backward fit into so many bytes,
 * each length that was tried being simulated; 0: not even the shortest. That a longer one does not fit where a shorter one
 * did not is relied on. */
mt_status mt_attention_longest(const struct mt_attention_case *study, const struct mt_alloc_settings *alloc,
                               uint64_t capacity_bytes, int64_t *out);

#endif
