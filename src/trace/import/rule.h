/* One rule: what must be so, and what is said then. */
#ifndef MT_TRACE_IMPORT_RULE_H
#define MT_TRACE_IMPORT_RULE_H

#include "trace/import/rules.h"

/* Patterns are as glob.h has them; NULL: anything. Owns all text, that of `says` too. */
struct mt_rule {
    char *function, *file; /* of one frame of Python, with a line in [line_low, line_high] */
    int64_t line_low, line_high;
    bool of_undone;  /* whose frame: of the operator that is undone, or of who asked */
    char *native;    /* a frame of C++ */
    char *operation; /* an operator of PyTorch */
    char *node;      /* the node of autograd; "" if there is none */
    char *metadata;
    char *annotation; /* one of those that were open */
    uint64_t size_low, size_high;
    uint32_t phases;                                /* a bit each; 0: any */
    int before, forward_known, outlives, parameter; /* 0 or 1; MT_RULE_SILENT: either */
    struct mt_rule_answer says;
};

/* Reads a line; *out_is_rule is false, and nothing to be released, for an empty one and a comment. MT_USAGE with what is
 * wrong. */
mt_status mt_rule_read(const char *line, struct mt_rule *out, bool *out_is_rule);
void mt_rule_release(struct mt_rule *rule);

/* Whether what it asks of the stack is so, and of the rest. */
bool mt_rule_fits_stack(const struct mt_rule *rule, const struct mt_call_stack *stack);
bool mt_rule_fits_subject(const struct mt_rule *rule, const struct mt_rule_subject *subject);

#endif
