# The module that watches kernels, libmemtrace_cupti.so, built if CUPTI is found (with the CUDA toolkit, or in its
# extras/CUPTI): src/device/cupti. The program opens it when kernels are watched, so that a machine without CUPTI lacks only
# the records of kernels. The module has its own copy of src/base, and uses the functions that the program exports instead.
find_path(MT_CUPTI_INCLUDE cupti.h HINTS ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda
          PATH_SUFFIXES include extras/CUPTI/include)
find_path(MT_CUDA_INCLUDE cuda.h HINTS ${MT_CUPTI_INCLUDE} ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda
          PATH_SUFFIXES include)
find_library(MT_CUPTI_LIBRARY cupti HINTS ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda
             PATH_SUFFIXES extras/CUPTI/lib64 lib64 lib)
if(NOT MT_CUPTI_INCLUDE OR NOT MT_CUDA_INCLUDE OR NOT MT_CUPTI_LIBRARY)
    message(STATUS "CUPTI not found: the program is built without kernel records")
    return()
endif()

add_library(memtrace_cupti MODULE src/device/cupti/cupti_watch.c src/device/cupti/cupti_client.c
                                  src/device/cupti/kernel_name.cpp src/device/kernel_log.c)
target_include_directories(memtrace_cupti PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
target_include_directories(memtrace_cupti SYSTEM PRIVATE ${MT_CUPTI_INCLUDE} ${MT_CUDA_INCLUDE})
target_link_libraries(memtrace_cupti PRIVATE mt_base ${MT_CUPTI_LIBRARY})
set(cupti_folders /usr/local/cuda/lib64 /usr/local/cuda/lib /usr/local/cuda/extras/CUPTI/lib64) # of the toolkit's installer
set_target_properties(memtrace_cupti PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF
                                                BUILD_RPATH "${cupti_folders}" INSTALL_RPATH "${cupti_folders}"
                                                LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
add_dependencies(memtrace memtrace_cupti)
install(TARGETS memtrace_cupti LIBRARY DESTINATION lib/memtrace COMPONENT cuda)

# The library that CUDA's driver loads into programs that `memtrace record` starts: src/producers/cuda and what it needs of the other
# folders, all inside and hidden, since those programs have libraries of their own.
file(GLOB inject_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/producers/cuda/*.c ${PROJECT_SOURCE_DIR}/src/producers/cuda/cupti/*.c)
add_library(memtrace_inject MODULE ${inject_sources} src/device/cupti/cupti_client.c src/device/cupti/kernel_name.cpp
                                   src/device/kernel_log.c)
target_include_directories(memtrace_inject PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
target_include_directories(memtrace_inject SYSTEM PRIVATE ${MT_CUPTI_INCLUDE} ${MT_CUDA_INCLUDE})
target_link_libraries(memtrace_inject PRIVATE mt_trace ${MT_CUPTI_LIBRARY} ${CMAKE_DL_LIBS})
target_link_options(memtrace_inject PRIVATE -Wl,--exclude-libs,ALL -static-libstdc++)
set_target_properties(memtrace_inject PROPERTIES INTERPROCEDURAL_OPTIMIZATION OFF C_VISIBILITY_PRESET hidden
                                                 CXX_VISIBILITY_PRESET hidden ENABLE_EXPORTS OFF
                                                 BUILD_RPATH "${cupti_folders}" INSTALL_RPATH "${cupti_folders}"
                                                 LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
add_dependencies(memtrace memtrace_inject)
install(TARGETS memtrace_inject LIBRARY DESTINATION lib/memtrace COMPONENT cuda)
