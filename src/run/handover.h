/* The contract between the commands that start a program (record, dry-run, fit, sweep) and memtrace's parts in that program:
 * libmemtrace_inject.so, libmemtrace_torch.so and the Python package. The program may have many processes. The request goes
 * through one variable of the environment, a flat JSON object (python/memtrace/_settings.py lists its members). The answers
 * come back through a file, one a line. In their texts the end of a line is written \n, and a backslash \\.
 *
 *   run TAB pid TAB number TAB trace      a process became a run
 *   lost TAB pid TAB count TAB what       something is missing from that run
 *   note TAB pid TAB 0 TAB words          the reason why a process did not become one
 *   history TAB pid TAB 0 TAB file        the file TRACE-pid.pickle is to be imported into TRACE, and to be removed
 *   began TAB pid TAB 0 TAB words         a dry run began in that process, under this version of PyTorch
 *   change TAB pid TAB 1 TAB name: words  a dry run made that change of the program, in these places; 0: it did not, for
 *                                         this reason
 *
 * Threads: any. */
#pragma once

#include "base/environment.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MT_INJECT_FILE "libmemtrace_inject.so"
#define MT_INJECT_REFUSAL_NAME "mt_inject_refusal"

/* Returns the reason why programs can't be recorded with the CUPTI that was found; NULL if they can. The library
 * exports it. The text is valid until the thread's next call. */
typedef const char *(*mt_inject_refusal_function)(void);
const char *mt_inject_refusal(void);

/* The ways of recording PyTorch: its own allocator is watched, ours is put in its place, or there is no card and ours gives
 * memory of a simulated one. */
typedef enum mt_record_torch {
    MT_RECORD_TORCH_NOT,
    MT_RECORD_TORCH_OWN,
    MT_RECORD_TORCH_OURS,
    MT_RECORD_TORCH_DRY
} mt_record_torch;

enum { MT_EVERY_DEVICE = -1 };

#define MT_SETTINGS_VARIABLE "MEMTRACE_SETTINGS"

/* A request. */
struct mt_record_request {
    const char *trace;     /* an absolute path */
    const char *answers;   /* the file for answers, likewise */
    const char *name;      /* of the runs; NULL: none */
    const char *command;   /* of the process, if its own command line is another's (dry/server.py); NULL: its own */
    const char *step;      /* prefix of the names of ranges that are steps; NULL: no range is */
    bool watches_kernels;  /* in addition to memory */
    bool leaves_stacks;    /* PyTorch's call stacks and operators are not recorded */
    bool finds_holders;    /* holders of allocations are searched */
    mt_record_torch torch; /* what is done in Python's processes that use PyTorch */
    int device;            /* the device whose memory is counted; MT_EVERY_DEVICE: all */
};

enum { MT_ALL_DRY_STEPS = -1 };

/* The settings of a dry run in addition to its request. Python alone reads them, the card from MEMTRACE_DRY_DEVICE. */
struct mt_dry_request {
    const char *device;  /* as mt_device_open takes it */
    int64_t cards;       /* how many there are */
    int64_t steps;       /* after which the program ends; 0: when its loops have settled, MT_ALL_DRY_STEPS: never */
    double deadline_s;   /* the moment at which the program ends, in seconds since 1970; 0: never */
    const char *assumed; /* the number that a value has that was not computed */
    double masks;        /* the fraction of a mask's elements that are true if it was not computed */
    const char *weights; /* "from-config": models need no checkpoint; NULL: they load theirs */
    bool is_eager;       /* torch.compile is left out */
    const char *inductor_cache; /* the folder with a card's autotuning choices; NULL: none */
    const char *changes;        /* of the program, by name, with commas between; NULL: none */
    const char *files;          /* the folder for what the program writes */
};

/* Put a request into the environment of a program: a record request in place of an earlier one, a dry request and the folder
 * for messages of ranks (producers/program/rank_runs.h) in addition to it. */
void mt_dry_request_give(const struct mt_dry_request *request, struct mt_environment *environment);
void mt_record_request_give(const struct mt_record_request *request, struct mt_environment *environment);
void mt_mail_folder_give(const char *folder, struct mt_environment *environment);

/* Has Python serve dry runs from a socket (producers/program/python_server.h), in addition to a dry request. */
void mt_server_give(int socket, struct mt_environment *environment);

/* Reads the request from the environment of this process. False if there is none; then *out is zero. The texts are
 * copies, since programs may overwrite their environment, for example with a title. The caller releases *out. */
bool mt_record_request_take(struct mt_record_request *out);
void mt_record_request_release(struct mt_record_request *request);

typedef enum mt_record_answer_kind {
    MT_RECORD_RUN,
    MT_RECORD_LOST,
    MT_RECORD_NOTE,
    MT_RECORD_HISTORY,
    MT_RECORD_BEGAN,
    MT_RECORD_CHANGE
} mt_record_answer_kind;

struct mt_record_answer {
    mt_record_answer_kind kind;
    int64_t pid;      /* of the process that answers */
    int64_t number;   /* of the run, the count of what is lost, or 1 for a change that was made */
    const char *text; /* the trace, what is lost, words, or the file */
};

/* Appends an answer to the file at `path`. It stays whole if other processes do so at the same time. Does nothing if it
 * can't be written, since there is nobody to report that to. */
void mt_record_answer_give(const char *path, const struct mt_record_answer *answer);

/* Reserves room for answers on the disk, where the file system can. MT_FAILED if the disk is full. */
mt_status mt_record_answers_reserve(int file, const char *path);

/* Calls `take` with each answer in the file, in the order in which they were written. Skips lines of an unknown kind,
 * which another build may write. MT_FAILED if the file can't be read. */
mt_status mt_record_answers_read(const char *path, void (*take)(void *context, const struct mt_record_answer *answer),
                                 void *context);
