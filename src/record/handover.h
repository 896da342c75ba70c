/* Between `memtrace record` and the library in the program that it starts, which may be in many of its processes: the
 * request goes through the environment, the answers come back through a file, a line each. In their texts a line's end
 * is written \n, and a backslash \\.
 *
 *   run TAB pid TAB number TAB trace      a process became a run
 *   lost TAB pid TAB count TAB what       of that run something is missing
 *   note TAB pid TAB 0 TAB words          what kept a process from becoming one */
#ifndef MT_RECORD_HANDOVER_H
#define MT_RECORD_HANDOVER_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is asked of the library. Texts are borrowed from whoever filled it, the environment in the program. */
struct mt_record_request {
    const char *trace;    /* an absolute path */
    const char *answers;  /* the file for them, likewise */
    const char *name;     /* of the runs; NULL: none */
    const char *step;     /* what the names of ranges begin with that are steps; NULL: none are */
    bool watches_kernels; /* and not only memory */
    int device;           /* whose memory is counted; MT_EVERY_DEVICE of account.h: all of them */
};

/* Puts the request into this process's environment, for those that it starts. */
void mt_record_request_give(const struct mt_record_request *request);

/* Reads it there. False: there is none. */
bool mt_record_request_take(struct mt_record_request *out);

typedef enum mt_record_answer_kind { MT_RECORD_RUN, MT_RECORD_LOST, MT_RECORD_NOTE } mt_record_answer_kind;

struct mt_record_answer {
    mt_record_answer_kind kind;
    int64_t pid;      /* of the process that speaks */
    int64_t number;   /* of the run, or of what is lost */
    const char *text; /* the trace, what is lost, or words */
};

/* Adds an answer to the file at `path`, whole whoever else does so at once. One that can't be added is nobody's to
 * tell. */
void mt_record_answer_give(const char *path, const struct mt_record_answer *answer);

/* Has room for answers set aside on the disk where that can be done. MT_FAILED if it has none. */
mt_status mt_record_answers_reserve(int file, const char *path);

/* Calls `take` with each answer in the file, in the order in which they were given. MT_FAILED if it can't be read. */
mt_status mt_record_answers_read(const char *path, void (*take)(void *context, const struct mt_record_answer *answer),
                                 void *context);

#endif
