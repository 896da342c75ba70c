/* Values of an option with commas between ("256,1024"), each once. */
#ifndef MT_CLI_VALUE_LIST_H
#define MT_CLI_VALUE_LIST_H

#include "study/attention_grid.h"

/* Numbers in [low, high]. MT_USAGE for anything else, none, or one twice; `option` is named in the message. */
mt_status mt_value_list_numbers(const char *option, const char *text, int64_t low, int64_t high,
                                struct mt_value_list *out);

/* Names out of `choices`, which end with NULL. */
mt_status mt_value_list_choices(const char *option, const char *text, const char *const *choices,
                                struct mt_value_list *out);

#endif
