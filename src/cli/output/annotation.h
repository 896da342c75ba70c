/* Annotations: a line of a program's source and its problem, in the format of GitHub's workflow commands:
 *
 *   ::error file=/home/a/train.py,line=41,title=memtrace fit::it needs 16.20 GiB, 1.20 GiB more than there is
 *
 * GitHub Actions shows them next to the line in a pull request, and editors in their lists of problems
 * (samples/vscode). */
#pragma once

#include "analysis/run_question.h"
#include "base/text.h"

/* A place in a program's source. `file` is absolute if the file exists; owned. `line` 0: unknown, and `file` is
 * empty. */
struct mt_source_place {
    struct mt_text file;
    uint64_t line;
};

/* Finds the line of the request that reached the run's peak; none if no call stacks were recorded. Release *out in any
 * case. */
mt_status mt_source_place_find_peak(const struct mt_question *question, mt_measure measure,
                                    struct mt_source_place *out);

/* Finds the line at which a program failed, from its output: the innermost frame of the program's own files in the last
 * Python traceback; none without a traceback. Release *out. */
void mt_source_place_find_failure(const char *output, struct mt_source_place *out);
void mt_source_place_release(struct mt_source_place *place);

/* Prints an annotation on stderr, without a file and a line if these are unknown. */
void mt_annotation_print(const struct mt_source_place *place, const char *title, const char *message);
