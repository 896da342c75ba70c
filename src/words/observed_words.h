/* Observations and holders in English and as JSON (src/analysis/advise/observed.h). */
#pragma once

#include "analysis/advise/observed.h"
#include "answer/table.h"
#include "base/text.h"
#include "words/remedy_list.h"

/* Describe a program phase, a holder and struct mt_observations. */
extern const struct mt_row_type mt_program_phase_type, mt_holder_type, mt_observations_type;

/* Adds "losses in validate (val.py:14)". */
void mt_holder_add_name(const struct mt_holder_row *holder, struct mt_text *out);

/* Adds "losses in validate (val.py:14) keeps 240.27 MiB, most of it by autograd graphs". */
void mt_holder_add(const struct mt_holder_row *holder, struct mt_text *out);

/* Adds what happens: "validate keeps 80.09 MiB more in each iteration (val.py:13): …". */
void mt_observed_add(const struct mt_observed *observed, struct mt_text *out);

/* Returns the change in words. */
const char *mt_observed_change_words(mt_observed_change change);

/* Adds the observations with their changes, and the holders that no observation is about. */
void mt_remedy_list_add_observations(struct mt_remedy_list *remedies, const struct mt_observations *observations);

/* True if mt_observations_print prints something. */
bool mt_observations_have_words(const struct mt_observations *observations);

/* Prints the observations with their changes; holders without one come after them. Nothing if there are none. */
void mt_observations_print(const struct mt_observations *observations, const struct mt_screen *screen);

/* Prints the highest moment of each phase of the program, if there are several phases. */
void mt_program_phases_print(const struct mt_observations *observations, const struct mt_screen *screen);
