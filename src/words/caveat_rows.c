#include "words/caveat_rows.h"

#include "answer/escape.h"

#include <inttypes.h>
#include <stdlib.h>

mt_status mt_caveat_lists_load(struct mt_trace *trace, const struct mt_run *run, struct mt_caveat_lists *out)
{
    size_t count;
    *out = (struct mt_caveat_lists){.ended_by = run->ended_by};
    MT_TRY(mt_trace_caveats(trace, run, &out->rows, &count));
    for (size_t i = 0; i < count; i++) {
        struct mt_caveat_list *list = &out->of[out->rows[i].kind];
        if (list->count++ == 0)
            list->rows = &out->rows[i];
    }
    return MT_OK;
}

void mt_caveat_lists_release(struct mt_caveat_lists *lists)
{
    free(lists->rows);
    *lists = (struct mt_caveat_lists){0};
}

#define ROW struct mt_caveat
static const struct mt_field place_fields[] = {
    MT_NAME(ROW, file, "file", "file", "of the program; null: not known"),
    MT_POSITIVE(ROW, line, "line", "line", NULL),
    MT_FIELDS_END,
};
static const struct mt_row_type place_type = MT_ROW_TYPE(ROW, place_fields);

static const struct mt_field shortened_fields[] = {
    MT_TEXT(ROW, name, "name", "shortened", "such as training loader"),
    MT_KNOWN(ROW, count, "count", "done", "pieces done"),
    MT_KNOWN(ROW, total, "total", "of", "pieces that there are; null: not known"),
    MT_FIELDS_OF(&place_type),
    MT_FIELDS_END,
};
static const struct mt_row_type shortened_type = MT_ROW_TYPE(ROW, shortened_fields);

static const struct mt_field not_run_fields[] = {
    MT_TEXT(ROW, name, "name", "not run", "the function that is called, such as evaluate"),
    MT_FIELDS_OF(&place_type),
    MT_FIELDS_END,
};
static const struct mt_row_type not_run_type = MT_ROW_TYPE(ROW, not_run_fields);

static const struct mt_field unknown_fields[] = {
    MT_TEXT(ROW, name, "name", "operator", "of the operator; (all operators) if an older program stored the run"),
    MT_KNOWN(ROW, count, "count", "calls", "calls"),
    MT_KNOWN(ROW, bytes, "bytes", "results", "of all their results"),
    MT_FIELDS_OF(&place_type),
    MT_FIELDS_END,
};
static const struct mt_row_type unknown_type = MT_ROW_TYPE(ROW, unknown_fields);

static const struct mt_field estimated_fields[] = {
    MT_TEXT(ROW, name, "name", "estimated", "which calls, and why"),
    MT_KNOWN(ROW, count, "count", "calls", "calls"),
    MT_FIELDS_END,
};
static const struct mt_row_type estimated_type = MT_ROW_TYPE(ROW, estimated_fields);

static const struct mt_field assumed_fields[] = {
    MT_TEXT(ROW, name, "name", "assumed", "how the value was read: a number, an array, or the operator"),
    MT_NUMBER(ROW, value, "value", "value", "that was assumed"),
    MT_KNOWN(ROW, count, "count", "reads", "reads"),
    MT_FIELDS_OF(&place_type),
    MT_FIELDS_END,
};
static const struct mt_row_type assumed_type = MT_ROW_TYPE(ROW, assumed_fields);

static const struct mt_field growth_fields[] = {
    MT_TEXT(ROW, name, "name", "growth", NULL),
    MT_KNOWN(ROW, bytes, "bytes", "bytes", "an iteration"),
    MT_KNOWN(ROW, count, "count", "full at", "the iteration at which the card is full"),
    MT_KNOWN(ROW, total, "total", "of", "iterations that there are; null: not known"),
    MT_NUMBER(ROW, value, "done", "done", "iterations that ran; null: not known"),
    MT_FIELDS_OF(&place_type),
    MT_FIELDS_END,
};
static const struct mt_row_type growth_type = MT_ROW_TYPE(ROW, growth_fields);

static const struct mt_field weights_fields[] = {
    MT_TEXT(ROW, name, "name", "weights", "of the model: its name on the Hub, or its folder"),
    MT_FIELDS_OF(&place_type),
    MT_FIELDS_END,
};
static const struct mt_row_type weights_type = MT_ROW_TYPE(ROW, weights_fields);

static const struct mt_field choice_fields[] = {
    MT_TEXT(ROW, name, "name", "choice", "the kernel"),
    MT_KNOWN(ROW, count, "count", "differing", "variants that requested other bytes than the first"),
    MT_KNOWN(ROW, total, "total", "of", "variants"),
    MT_KNOWN(ROW, bytes, "bytes", "bytes", "by which they differ at most"),
    MT_FIELDS_OF(&place_type),
    MT_FIELDS_END,
};
static const struct mt_row_type choice_type = MT_ROW_TYPE(ROW, choice_fields);

static const struct mt_field eager_fields[] = {
    MT_TEXT(ROW, name, "name", "eager", "why torch.compile was left out"),
    MT_FIELDS_OF(&place_type),
    MT_FIELDS_END,
};
static const struct mt_row_type eager_type = MT_ROW_TYPE(ROW, eager_fields);
static const struct mt_field card_fields[] = {
    MT_TEXT(ROW, name, "name", "card", "such as cuda:0"),
    MT_KNOWN(ROW, bytes, "bytes", "bytes", "peak of allocated bytes there"),
    MT_FIELDS_END,
};
static const struct mt_row_type card_type = MT_ROW_TYPE(ROW, card_fields);

static const struct mt_field not_updated_fields[] = {
    MT_TEXT(ROW, name, "name", "not updated", "the module, by the variable that holds it"),
    MT_KNOWN(ROW, bytes, "bytes", "bytes", "of the gradients"),
    MT_KNOWN(ROW, count, "count", "parameters", "that have these gradients"),
    MT_FIELDS_OF(&place_type),
    MT_FIELDS_END,
};
static const struct mt_row_type not_updated_type = MT_ROW_TYPE(ROW, not_updated_fields);

static const struct mt_field not_detached_fields[] = {
    MT_TEXT(ROW, name, "name", "not detached", "the tensor, by its variable, or the output of a module"),
    MT_KNOWN(ROW, bytes, "bytes", "bytes", "of the gradients that are cleared without a use"),
    MT_KNOWN(ROW, count, "count", "parameters", "that have these gradients"),
    MT_FIELDS_OF(&place_type),
    MT_FIELDS_END,
};
static const struct mt_row_type not_detached_type = MT_ROW_TYPE(ROW, not_detached_fields);

static const struct mt_field zeroed_fields[] = {
    MT_TEXT(ROW, name, "name", "zeroed", "the class of the optimizer"),
    MT_KNOWN(ROW, bytes, "bytes", "bytes", "of the gradients"),
    MT_KNOWN(ROW, count, "count", "parameters", "that have these gradients"),
    MT_FIELDS_END,
};
static const struct mt_row_type zeroed_type = MT_ROW_TYPE(ROW, zeroed_fields);
#undef ROW

#define ROW struct mt_caveat_lists
#define LIST(KIND, name, type, words)                                                                                  \
    MT_ROWS(ROW, of[MT_CAVEAT_##KIND].rows, of[MT_CAVEAT_##KIND].count, name, type, words)
static const struct mt_field lists_fields[] = {
    MT_NAME(ROW, ended_by, "ended_by", "ended by", "as in table `run`; null: not known"),
    LIST(SHORTENED, "shortened", &shortened_type, "what was cut"),
    LIST(NOT_RUN, "not_run", &not_run_type, "calls that did not run, since the run ended earlier"),
    LIST(UNKNOWN, "unknown", &unknown_type, "operators with unknown scratch memory, which is not counted"),
    LIST(ESTIMATED, "estimated", &estimated_type, "calls with estimated scratch memory"),
    LIST(ASSUMED, "assumed", &assumed_type, "values that were not computed"),
    LIST(GROWTH, "growth", &growth_type, "memory that grows with each iteration: an estimate"),
    LIST(WEIGHTS, "weights", &weights_type, "models with weights made from the configuration"),
    LIST(CHOICE, "choices", &choice_type,
         "kernels with variants that a card selects by time; the dry run used the first"),
    LIST(EAGER, "eager", &eager_type, "compiled code that ran as eager code, with its bytes"),
    LIST(OTHER_CARD, "other_cards", &card_type, "cards that are not this rank's own, and have memory of it"),
    LIST(NOT_UPDATED, "not_updated", &not_updated_type, "modules with gradients that no optimizer uses"),
    LIST(NOT_DETACHED, "not_detached", &not_detached_type,
         "tensors through which the backward of one optimizer's step reaches another model"),
    LIST(ZEROED, "zeroed", &zeroed_type, "gradients that are set to zero, and stay allocated during forward"),
    MT_FIELDS_END,
};
const struct mt_row_type mt_caveat_lists_type = MT_ROW_TYPE(ROW, lists_fields);
#undef LIST
#undef ROW

void mt_caveat_add_unknown(const struct mt_caveat_lists *lists, struct mt_text *text)
{
    const struct mt_caveat_list *unknown = &lists->of[MT_CAVEAT_UNKNOWN];
    for (size_t i = 0; i < unknown->count; i++) {
        const struct mt_caveat *row = &unknown->rows[i];
        mt_text_add(text, i == 0 ? "scratch memory of these operators is unknown and not counted: " : ", ");
        mt_text_add_visible(text, row->name);
        if (row->count >= 0)
            mt_text_add(text, " (%" PRId64 " calls, results of %s)", row->count,
                        MT_SIZE(row->bytes >= 0 ? (uint64_t)row->bytes : 0));
    }
    if (unknown->count > 0)
        mt_text_add(text, "\n");
}
