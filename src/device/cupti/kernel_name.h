/* Names of kernels as their authors wrote them. */
#ifndef MT_DEVICE_CUPTI_KERNEL_NAME_H
#define MT_DEVICE_CUPTI_KERNEL_NAME_H

#ifdef __cplusplus
extern "C" {
#endif

/* The C++ declaration that a linker's name stands for, for free(); NULL if it is none of C++. */
char *mt_kernel_name_spell(const char *name);

#ifdef __cplusplus
}
#endif

#endif
