/* Interns labels, spans and names of categories: equal values get equal ids, ids are dense from 1 (categories: from 0)
 * and never change. Every sink that gives out ids has one of these inside. Not locked: a sink is called by one thread
 * at a time. */
#ifndef MT_BASE_INTERNER_H
#define MT_BASE_INTERNER_H

#include "base/label.h"
#include "base/sink.h"

#include <stdbool.h>

struct mt_interner;

/* Running out of host memory inside an interner ends the process (abort): its ids must not fail. */
struct mt_interner *mt_interner_create(void);
void mt_interner_destroy(struct mt_interner *interner);

/* *is_new (may be NULL) tells whether this call made the id. */
mt_label_id mt_interner_label(struct mt_interner *interner, const struct mt_label *label, bool *is_new);
mt_span_id mt_interner_span(struct mt_interner *interner, mt_span_id parent, const char *name, bool *is_new);

/* As mt_category_set_add. */
mt_category mt_interner_category(struct mt_interner *interner, const char *name);

/* What a category is called, ours or named; as mt_category_set_name. */
const char *mt_interner_category_name(const struct mt_interner *interner, mt_category category);

/* What an id stands for; borrowed, valid as long as the interner. NULL for an id it never gave. */
const struct mt_label *mt_interner_find_label(const struct mt_interner *interner, mt_label_id id);
const struct mt_span *mt_interner_find_span(const struct mt_interner *interner, mt_span_id id);

/* A sink that interns and wants no events, for runs that are not traced. `interner` is borrowed. */
struct mt_sink mt_sink_discarding(struct mt_interner *interner);

#endif
