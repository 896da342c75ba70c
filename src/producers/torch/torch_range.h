/* Ranges of the program, named by torch.autograd.profiler.record_function. Some of them mark steps. Called without
 * Python's lock, by the thread that runs the range. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

void mt_torch_range_begin(const char *name);
void mt_torch_range_end(const char *name);

#ifdef __cplusplus
}
#endif
