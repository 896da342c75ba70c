/* The library that called a function of CUDA, by the stack of the thread: NCCL, cuBLAS and others take memory for
 * themselves.
 *
 * Threads: any. */
#pragma once

/* Returns the file name of the innermost library on the calling thread's stack that is neither CUDA's driver, its
 * runtime or CUPTI, nor the one of this function: "libnccl.so.2". NULL if that is the program itself, or the stack
 * can't be followed. Valid until the library is unloaded. */
const char *mt_caller_library(void);
