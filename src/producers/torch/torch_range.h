/* Ranges of the program, which torch.autograd.profiler.record_function names: some tell of steps. Called without Python's lock, by
 * the thread whose range it is. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

void mt_torch_range_begin(const char *name);
void mt_torch_range_end(const char *name);

#ifdef __cplusplus
}
#endif
