/* Names of kernels as their authors wrote them. */
#ifndef MT_DEVICE_CUPTI_KERNEL_NAME_H
#define MT_DEVICE_CUPTI_KERNEL_NAME_H

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the C++ declaration of a linker's name, or NULL if it is none of C++. The caller frees it. */
char *mt_kernel_name_spell(const char *name);

#ifdef __cplusplus
}
#endif

#endif
