#include "producers/program/program_outcome.h"

#include "base/memory.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { ENDED_BY_SIGNAL = 128 };

void mt_program_outcome_keep(void *context, const struct mt_record_answer *answer)
{
    struct mt_program_outcome *outcome = context;
    struct mt_record_answer *kept = MT_HOST_ADD(outcome->answers, outcome->count);
    *kept = *answer;
    kept->text = mt_host_strdup(answer->text);
}

void mt_program_note_add(const struct mt_record_answer *answer, struct mt_text *out)
{
    if (answer->kind == MT_RECORD_LOST)
        mt_text_add(out, "%" PRId64 " %s are missing", answer->number, answer->text);
    else
        mt_text_add(out, "%s", answer->text);
}

void mt_program_outcome_release(struct mt_program_outcome *outcome)
{
    for (size_t i = 0; i < outcome->count; i++)
        free((char *)(uintptr_t)outcome->answers[i].text);
    free(outcome->answers);
    free(outcome->stand_ins);
    free(outcome->path);
    mt_rank_notes_release(&outcome->notes);
    mt_text_release(&outcome->said);
    *outcome = (struct mt_program_outcome){0};
}

bool mt_program_outcome_is_interrupted(const struct mt_program_outcome *outcome)
{
    return outcome->is_interrupted || outcome->code == ENDED_BY_SIGNAL + SIGINT;
}

int mt_program_outcome_killed_by(const struct mt_program_outcome *outcome)
{
    const int signal = outcome->code - ENDED_BY_SIGNAL;
    return signal == SIGKILL || signal == SIGTERM ? signal : 0;
}

/* Returns the last line that is not empty, and sets its length. */
static const char *last_line(const char *text, size_t *out_length)
{
    const char *end = text + strlen(text);
    while (end > text && end[-1] == '\n')
        end--;
    const char *begin = end;
    while (begin > text && begin[-1] != '\n')
        begin--;
    *out_length = (size_t)(end - begin);
    return begin;
}

void mt_program_outcome_add_failure(const struct mt_program_outcome *outcome, struct mt_text *out)
{
    size_t length;
    const char *line = last_line(mt_text_get(&outcome->said), &length);
    mt_text_add(out, "exit code %d", outcome->code);
    if (length > 0)
        mt_text_add(out, ", %.*s", (int)length, line);
}
