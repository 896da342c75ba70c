# The library that puts memtrace's allocator under PyTorch, libmemtrace_torch.so: src/producers/torch, with the other folders that it needs,
# and CUDA's runtime inside where it is found; without it, cards are simulated or PyTorch's own. Building it takes neither PyTorch
# nor a card. It exports memtrace_torch_* and nothing else: it has its own copy of libraries that the program uses, too.
set(torch_card_sources ${PROJECT_SOURCE_DIR}/src/producers/torch/cuda/torch_no_card.c)
set(torch_card_library)
if(MT_CUDA)
    find_path(MT_CUDART_INCLUDE cuda_runtime_api.h HINTS ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES include)
    find_library(MT_CUDART_LIBRARY cudart_static HINTS ENV CUDA_PATH ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES lib64 lib)
    if(MT_CUDART_INCLUDE AND MT_CUDART_LIBRARY)
        set(torch_card_sources src/producers/torch/cuda/torch_cuda_card.c src/device/cuda/cuda_range.c)
        set(torch_card_library ${MT_CUDART_LIBRARY})
    else()
        message(STATUS "CUDA's runtime not found: the library for PyTorch has no cards of its own")
    endif()
endif()

# It stays loaded (nodelete): the end of a thread calls its functions.
# Relative to where the linker runs: in options, generators do not quote every character that a folder may have.
set(torch_exports ${PROJECT_SOURCE_DIR}/src/producers/torch/memtrace_torch.map)
file(RELATIVE_PATH torch_exports_option ${PROJECT_BINARY_DIR} ${torch_exports})
add_library(memtrace_torch MODULE ${torch_card_sources} src/producers/torch/cuda/torch_no_card_file.c src/producers/torch/torch_alloc.cpp src/producers/torch/torch_tracker.cpp
                           src/producers/torch/torch_graph.cpp src/producers/torch/torch_record_function.cpp)
if(torch_card_library)
    target_include_directories(memtrace_torch SYSTEM PRIVATE ${MT_CUDART_INCLUDE})
endif()
target_link_libraries(memtrace_torch PRIVATE "-Wl,--as-needed" "-Wl,--whole-archive" mt_torch "-Wl,--no-whole-archive" ${torch_card_library}
                                             Threads::Threads ${CMAKE_DL_LIBS} rt)
target_link_options(memtrace_torch PRIVATE -Wl,-z,nodelete -Wl,--version-script=${torch_exports_option})
set_target_properties(memtrace_torch PROPERTIES LINK_DEPENDS ${torch_exports}
                                                LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
install(TARGETS memtrace_torch LIBRARY DESTINATION lib/memtrace COMPONENT cuda)

# The process that asks cuDNN about convolutions for a dry run, which finds it beside the library. It loads cuDNN as it runs, so
# building it takes none of NVIDIA's files.
file(GLOB cudnn_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/operators/cudnn/helper/*.c)
add_executable(memtrace_cudnn ${cudnn_sources})
target_link_libraries(memtrace_cudnn PRIVATE mt_cudnn)
install(TARGETS memtrace_cudnn RUNTIME DESTINATION lib/memtrace COMPONENT cuda)
