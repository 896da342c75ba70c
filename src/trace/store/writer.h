/* The thread that drains the ring into the database.
 *
 * It polls: the producer never has to wake it, except when it waits itself. One transaction takes what came in 100 ms,
 * or less if somebody waits for room or for a flush. The first failure ends it; the producer then no longer waits. */
#ifndef MT_TRACE_WRITER_H
#define MT_TRACE_WRITER_H

#include "trace/store/intake.h"
#include "trace/store/ring.h"

struct mt_writer;

/* Borrows both until stop. */
mt_status mt_writer_start(struct mt_ring *ring, struct mt_intake *intake, struct mt_writer **out);

/* Producer: returns when everything below `position` is committed, or the writer has failed: with its failure. */
mt_status mt_writer_wait(struct mt_writer *writer, uint64_t position);

/* Stores and commits the rest, ends the thread and frees the writer. The first failure of its life. May be NULL. */
mt_status mt_writer_stop(struct mt_writer *writer);

#endif
