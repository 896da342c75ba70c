#include "trace/import/pickle_refusal.h"

#include <stddef.h>

/* Why an instruction is not carried out. */
struct refusal {
    unsigned char opcode;
    const char *name, *because;
};

static const char RUNS_CODE[] = "could run any code";
static const char OLD[] = "is of protocol 0 or 1; 2 to 5 are read";
static const char NOT_PLAIN[] = "builds what is no plain data";
static const char ELSEWHERE[] = "refers to what is not in the file";
static const struct refusal refusals[] = {
    {'c', "GLOBAL", RUNS_CODE},
    {0x93, "STACK_GLOBAL", RUNS_CODE},
    {'R', "REDUCE", RUNS_CODE},
    {'b', "BUILD", RUNS_CODE},
    {'i', "INST", RUNS_CODE},
    {'o', "OBJ", RUNS_CODE},
    {0x81, "NEWOBJ", RUNS_CODE},
    {0x92, "NEWOBJ_EX", RUNS_CODE},
    {0x82, "EXT1", RUNS_CODE},
    {0x83, "EXT2", RUNS_CODE},
    {0x84, "EXT4", RUNS_CODE},
    {'P', "PERSID", ELSEWHERE},
    {'Q', "BINPERSID", ELSEWHERE},
    {0x97, "NEXT_BUFFER", ELSEWHERE},
    {0x98, "READONLY_BUFFER", ELSEWHERE},
    {0x8F, "EMPTY_SET", NOT_PLAIN},
    {0x90, "ADDITEMS", NOT_PLAIN},
    {0x91, "FROZENSET", NOT_PLAIN},
    {'I', "INT", OLD},
    {'L', "LONG", OLD},
    {'F', "FLOAT", OLD},
    {'S', "STRING", OLD},
    {'V', "UNICODE", OLD},
    {'p', "PUT", OLD},
    {'g', "GET", OLD},
};

mt_status mt_pickle_refuse(unsigned char opcode)
{
    for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; i++)
        if (refusals[i].opcode == opcode)
            return mt_fail(MT_BAD_TRACE, "the instruction %s %s", refusals[i].name, refusals[i].because);
    return mt_fail(MT_BAD_TRACE, "there is no instruction 0x%02x", opcode);
}
