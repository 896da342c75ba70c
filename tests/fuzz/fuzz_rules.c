/* Fuzzes rules: the bytes are a text of rules, a zero, and the name of a frame for which the rules are asked. */
#include "base/memory.h"
#include "producers/file/rules.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static void ask(const struct mt_rules *rules, const char *name)
{
    const struct mt_call_frame python = {
        .name = name, .file = "model.py", .line = 7, .is_python = true, .operation = ""};
    const struct mt_call_frame native = {.name = name, .file = "??", .operation = name, .number = 1};
    const struct mt_call_frame *frames[] = {&python, &native};
    const struct mt_call_stack stack = {
        .frames = frames, .frame_count = 2, .operation = name, .node = name, .recorded = ""};
    const struct mt_rule_subject subject = {.bytes = 512, .metadata = name, .phase = MT_PHASE_BACKWARD};
    struct mt_rule_choice choice;
    struct mt_rule_answer answer;
    struct mt_frame_matches *matches = mt_rules_match_frames(rules);
    mt_rules_choose(rules, matches, &stack, &choice);
    mt_frame_matches_destroy(matches);
    mt_rules_phase(rules, &choice, &subject);
    mt_rules_ask(rules, &choice, &subject, &answer);
    mt_rule_choice_release(&choice);
    mt_node_undoes(name, name + strlen(name) / 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
    struct mt_rules *rules = mt_rules_create();
    char *text = mt_host_alloc(length + 2); /* ends with two zeros */
    if (length > 0)
        memcpy(text, data, length);
    if (mt_rules_add(rules, "fuzz", text) == MT_OK)
        ask(rules, strlen(text) < length ? text + strlen(text) + 1 : "");
    free(text);
    mt_rules_destroy(rules);
    return 0;
}
