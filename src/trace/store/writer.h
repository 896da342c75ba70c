/* The thread that drains the ring into the database.
 *
 * It polls, so that the producer has to wake it only when the producer itself waits. One transaction has the records of
 * 100 ms, or fewer if the producer waits for room or for a flush. The first failure ends the thread; the producer then
 * no longer waits. */
#pragma once

#include "trace/store/intake.h"
#include "trace/store/ring.h"

struct mt_writer;

/* Starts the thread. Borrows its arguments until stop. */
mt_status mt_writer_start(struct mt_ring *ring, struct mt_intake *intake, struct mt_writer **out);

/* Producer: waits until everything below `position` is committed. Returns the writer's failure if it has failed. */
mt_status mt_writer_wait(struct mt_writer *writer, uint64_t position);

/* Stores and commits the rest, ends the thread and frees the writer. Returns its first failure. May be NULL. */
mt_status mt_writer_stop(struct mt_writer *writer);
