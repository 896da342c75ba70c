# The module for NVIDIA cards, libmemtrace_cuda.so, built if the CUDA toolkit is found: kernels/cuda and src/device/cuda, with
# CUDA's runtime inside and cuBLAS beside it. The program opens it when a GPU is asked for (src/device/device_open.c).
# Kernels are compiled for cards with bf16 matrix units (8.0, 9.0). The driver compiles them for later cards.
find_package(CUDAToolkit QUIET)
# A toolkit may lack cuBLAS; tools/setup takes it from PyPI then.
set(cuda_wheels ${PROJECT_SOURCE_DIR}/build/toolkit/nvidia/cu13)
if(CUDAToolkit_FOUND AND NOT TARGET CUDA::cublas AND EXISTS ${cuda_wheels}/include/cublas_v2.h)
    foreach(library IN ITEMS cublas cublasLt)
        add_library(CUDA::${library} SHARED IMPORTED)
        set_target_properties(CUDA::${library} PROPERTIES IMPORTED_LOCATION ${cuda_wheels}/lib/lib${library}.so.13)
    endforeach()
    list(APPEND CUDAToolkit_INCLUDE_DIRS ${cuda_wheels}/include)
endif()
if(NOT CUDAToolkit_FOUND OR NOT CUDAToolkit_NVCC_EXECUTABLE OR NOT TARGET CUDA::cublas OR NOT TARGET CUDA::cublasLt)
    message(STATUS "CUDA toolkit with nvcc and cuBLAS not found: the program is built without GPUs")
    return()
endif()

file(GLOB cuda_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/*.c ${PROJECT_SOURCE_DIR}/src/device/cuda/*.c)
if(NOT MT_CUDA_KERNELS)
    add_library(memtrace_cuda_host OBJECT ${cuda_sources})
    target_include_directories(memtrace_cuda_host PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
    target_include_directories(memtrace_cuda_host SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    return()
endif()

set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
set(CMAKE_CUDA_STANDARD 17)
enable_language(CUDA)

file(GLOB kernel_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cu)
# Kernels for Hopper use instructions that are its own, and are compiled for it alone.
set(hopper_sources ${kernel_sources})
list(FILTER hopper_sources INCLUDE REGEX "/hopper_[a-z]+\\.cu$")
list(REMOVE_ITEM kernel_sources ${hopper_sources})
add_library(memtrace_cuda_hopper OBJECT ${hopper_sources})
foreach(name IN ITEMS status plain_text memory names) # its own copy of a part of src/base (src/device/module.h)
    list(APPEND cuda_sources ${PROJECT_SOURCE_DIR}/src/base/${name}.c)
endforeach()
add_library(memtrace_cuda MODULE ${cuda_sources} ${kernel_sources} $<TARGET_OBJECTS:memtrace_cuda_hopper>)
foreach(target IN ITEMS memtrace_cuda memtrace_cuda_hopper)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
    target_include_directories(${target} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
    target_compile_options(
        ${target} PRIVATE "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra;$<$<BOOL:${MT_WERROR}>:-Werror=all-warnings>>")
endforeach()
# A program exports its functions, and libmemtrace.so does not, so the module may need none of them.
target_link_options(memtrace_cuda PRIVATE -Wl,--no-undefined)
target_link_libraries(memtrace_cuda PRIVATE CUDA::cudart_static CUDA::cublas CUDA::cublasLt Threads::Threads ${CMAKE_DL_LIBS})
# The loader looks for cuBLAS in its usual places and in the toolkit's.
set_target_properties(memtrace_cuda_hopper PROPERTIES CUDA_ARCHITECTURES 90a-real CUDA_VISIBILITY_PRESET hidden
                                                      VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON)
set_target_properties(
    memtrace_cuda
    PROPERTIES INTERPROCEDURAL_OPTIMIZATION_RELEASE OFF
               C_VISIBILITY_PRESET hidden
               CUDA_VISIBILITY_PRESET hidden
               VISIBILITY_INLINES_HIDDEN ON
               BUILD_RPATH "$ORIGIN;/usr/local/cuda/lib64"
               INSTALL_RPATH "$ORIGIN;/usr/local/cuda/lib64")
add_dependencies(memtrace memtrace_cuda)
install(TARGETS memtrace_cuda LIBRARY DESTINATION lib/memtrace COMPONENT cuda)
