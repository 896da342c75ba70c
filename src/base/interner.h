/* Interns labels, spans, call stacks and names of categories: equal values get equal ids. Ids are dense from 1
 * (categories: from 0) and never change. Every sink that gives out ids has an interner inside. One thread at a time, as
 * a sink is called. */
#pragma once

#include "base/label.h"
#include "base/sink.h"

#include <stdbool.h>
#include <stdint.h>

struct mt_interner;

/* Running out of host memory inside an interner ends the process, so that giving out an id never fails. */
struct mt_interner *mt_interner_create(void);
void mt_interner_destroy(struct mt_interner *interner);

/* Return the id of a value, which is copied if it is new. Set *is_new, unless that is NULL. */
mt_label_id mt_interner_label(struct mt_interner *interner, const struct mt_label *label, bool *is_new);
mt_span_id mt_interner_span(struct mt_interner *interner, mt_span_id parent, const char *name, bool *is_new);

mt_frame_id mt_interner_frame(struct mt_interner *interner, const struct mt_frame *frame, bool *is_new);
mt_stack_id mt_interner_stack(struct mt_interner *interner, mt_stack_id parent, mt_frame_id frame, bool *is_new);

/* As mt_category_set_add. */
mt_category mt_interner_category(struct mt_interner *interner, const char *name);

/* As mt_category_set_name. */
const char *mt_interner_category_name(const struct mt_interner *interner, mt_category category);

/* Return the value of an id, which lives as long as the interner; NULL for an id that it never gave out. */
const struct mt_label *mt_interner_find_label(const struct mt_interner *interner, mt_label_id id);
const struct mt_span *mt_interner_find_span(const struct mt_interner *interner, mt_span_id id);
const struct mt_frame *mt_interner_find_frame(const struct mt_interner *interner, mt_frame_id id);
const struct mt_stack *mt_interner_find_stack(const struct mt_interner *interner, mt_stack_id id);

/* Returns a sink that interns and wants no events, for runs that are not traced. Borrows the interner. */
struct mt_sink mt_sink_discarding(struct mt_interner *interner);

/* A set of texts with their numbers, for callers that give the same few names again and again, each time by the same
 * pointer: a known pointer is not hashed, only its text compared. One thread at a time. */
struct mt_name_set;

struct mt_name_set *mt_name_set_create(void);
void mt_name_set_destroy(struct mt_name_set *set); /* may be NULL */

/* Returns the number of a name, from 1 in order of first use, the same for equal names. Copies it: another name may lie
 * at its place later. Sets *is_new, unless that is NULL. */
uint32_t mt_name_set_number(struct mt_name_set *set, const char *name, bool *is_new);

/* Returns the name of a number of this set; it lives as long as the set. */
const char *mt_name_set_name(const struct mt_name_set *set, uint32_t number);
