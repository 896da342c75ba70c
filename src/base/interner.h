/* Interns labels, spans and names of categories: equal values get equal ids. Ids are dense from 1 (categories: from 0) and
 * never change. Every sink that gives out ids has an interner inside. One thread at a time, as a sink is called. */
#ifndef MT_BASE_INTERNER_H
#define MT_BASE_INTERNER_H

#include "base/label.h"
#include "base/sink.h"

#include <stdbool.h>

struct mt_interner;

/* Running out of host memory inside an interner ends the process, so that giving out an id never fails. */
struct mt_interner *mt_interner_create(void);
void mt_interner_destroy(struct mt_interner *interner);

/* Return the id of a value, which is copied if it is new. Set *is_new, unless that is NULL. */
mt_label_id mt_interner_label(struct mt_interner *interner, const struct mt_label *label, bool *is_new);
mt_span_id mt_interner_span(struct mt_interner *interner, mt_span_id parent, const char *name, bool *is_new);

/* As mt_category_set_add. */
mt_category mt_interner_category(struct mt_interner *interner, const char *name);

/* As mt_category_set_name. */
const char *mt_interner_category_name(const struct mt_interner *interner, mt_category category);

/* Return the value of an id, which lives as long as the interner; NULL for an id that it never gave out. */
const struct mt_label *mt_interner_find_label(const struct mt_interner *interner, mt_label_id id);
const struct mt_span *mt_interner_find_span(const struct mt_interner *interner, mt_span_id id);

/* Returns a sink that interns and wants no events, for runs that are not traced. Borrows the interner. */
struct mt_sink mt_sink_discarding(struct mt_interner *interner);

#endif
