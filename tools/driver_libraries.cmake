# Stand-ins for NVIDIA's driver in dry runs (src/producers/torch/driver). Their file names are memtrace's own, so that no program finds
# them by chance. Their sonames are the driver's: once one is loaded, it is what a library finds that is linked to the driver. The
# functions of libmemtrace_torch.so that they call are in the process before.
function(mt_driver_library name soname)
    list(TRANSFORM ARGN PREPEND src/producers/torch/driver/ OUTPUT_VARIABLE sources)
    add_library(${name} MODULE ${sources} src/producers/torch/driver/driver_card.c)
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(${name} PRIVATE ${CMAKE_DL_LIBS})
    target_compile_options(${name} PRIVATE -Wno-missing-prototypes) # NVIDIA's headers have them
    target_link_options(${name} PRIVATE -Wl,-soname,${soname})
    set_target_properties(${name} PROPERTIES NO_SONAME ON C_VISIBILITY_PRESET hidden
                                             LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
    install(TARGETS ${name} LIBRARY DESTINATION lib/memtrace COMPONENT cuda)
endfunction()

mt_driver_library(memtrace_driver libcuda.so.1 driver_cuda.c driver_kernels.c)
mt_driver_library(memtrace_nvml libnvidia-ml.so.1 driver_nvml.c)
