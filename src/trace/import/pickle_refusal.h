/* The instructions that a pickle may have and this reader does not; for pickle.c. */
#ifndef MT_TRACE_IMPORT_PICKLE_REFUSAL_H
#define MT_TRACE_IMPORT_PICKLE_REFUSAL_H

#include "base/status.h"

/* MT_BAD_TRACE, with the instruction's name and why it is not carried out. */
mt_status mt_pickle_refuse(unsigned char opcode);

#endif
