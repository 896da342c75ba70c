/* Pages that PyTorch's torch/cuda/_memory_viz.py writes (trace_plot, segment_plot): HTML that holds a whole snapshot, a
 * pickle in base64.
 *
 *   const local_files = [{"name": "snapshot.pickle", "base64": "gASV…"}]
 *
 * Threads: one at a time for each file. */
#pragma once

#include "producers/file/document.h"

/* True if the bytes begin as HTML does. */
bool mt_viz_page_is_one(const struct mt_whole_file *file);

/* Replaces the page's bytes by the bytes of its first file. Fails with MT_BAD_TRACE and the position if the page
 * contains no file, or a damaged one. */
mt_status mt_viz_page_unwrap(struct mt_whole_file *file);
