# What `cmake --install` puts where, and the Debian packages that `cpack -G DEB` makes of it. Nothing refers to the
# prefix, so an installed tree can be moved.
#
#   component     Debian package    what it is
#   program       memtrace          the program, its manual, pages and completions, libmemtrace.so.N, the Python package
#   development   libmemtrace-dev   the header, libmemtrace.a, memtrace.pc, the CMake package, samples
#   cuda          memtrace-cuda     the modules that need CUDA, where they were built
include(CMakePackageConfigHelpers)

# All that is installed, and none of the tests.
add_custom_target(installed DEPENDS share memtrace memtrace_shared memtrace_static)
foreach(module memtrace_cuda memtrace_cupti memtrace_inject memtrace_torch memtrace_cudnn memtrace_driver memtrace_nvml memtrace_openblas)
    if(TARGET ${module})
        add_dependencies(installed ${module})
    endif()
endforeach()

set(library_folder ${CMAKE_INSTALL_LIBDIR})
install(TARGETS memtrace RUNTIME)
install(DIRECTORY ${share}/ DESTINATION ${CMAKE_INSTALL_DATADIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR}) # which the program's help refers to

# The Python package, which finds the libraries two folders above itself (python/memtrace/_library.py), here and in a build.
install(DIRECTORY python/memtrace DESTINATION lib/memtrace/python
        FILES_MATCHING PATTERN *.py PATTERN py.typed PATTERN SKILL.md PATTERN __pycache__ EXCLUDE)
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/python ${PROJECT_BINARY_DIR}/python SYMBOLIC)
foreach(folder include src)
    file(CREATE_LINK ${PROJECT_SOURCE_DIR}/${folder} ${PROJECT_BINARY_DIR}/${folder} SYMBOLIC)
endforeach()

# The headers from which the package takes the declarations of C functions (python/memtrace/_declarations.py).
install(FILES include/memtrace.h DESTINATION lib/memtrace/include COMPONENT program)

# The sources of the library that gives a PyTorch a card, which is compiled for each PyTorch at its first use.
install(DIRECTORY src/producers/torch/dry DESTINATION lib/memtrace/src/producers/torch COMPONENT program)
install(FILES src/producers/torch/memtrace_torch.h src/producers/torch/torch_plan.h DESTINATION lib/memtrace/src/producers/torch COMPONENT program)
install(FILES src/operators/operator_call.h DESTINATION lib/memtrace/src/operators COMPONENT program)

install(TARGETS memtrace_shared memtrace_static EXPORT memtrace-targets
        LIBRARY DESTINATION ${library_folder} COMPONENT program NAMELINK_COMPONENT development
        ARCHIVE DESTINATION ${library_folder} COMPONENT development)
install(FILES include/memtrace.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
install(DIRECTORY samples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT development)

# memtrace.pc, whose prefix is where it lies.
file(RELATIVE_PATH MT_PREFIX_FROM_PC /${library_folder}/pkgconfig /)
string(REGEX REPLACE "/$" "" MT_PREFIX_FROM_PC ${MT_PREFIX_FROM_PC})
configure_file(tools/memtrace.pc.in memtrace.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/memtrace.pc DESTINATION ${library_folder}/pkgconfig COMPONENT development)

# find_package(memtrace): the targets memtrace::memtrace, shared, and memtrace::static.
set(package_folder ${library_folder}/cmake/memtrace)
install(EXPORT memtrace-targets NAMESPACE memtrace:: DESTINATION ${package_folder} COMPONENT development)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/memtrace-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES tools/memtrace-config.cmake ${PROJECT_BINARY_DIR}/memtrace-config-version.cmake
        DESTINATION ${package_folder} COMPONENT development)

set(CPACK_GENERATOR DEB)
# A Debian package has to name somebody: whoever publishes one. Until that is said it is nobody who can be written to.
set(MT_PACKAGE_MAINTAINER "memtrace developers <nobody@memtrace.invalid>" CACHE STRING
    "Maintainer of the Debian packages: NAME <ADDRESS> of who publishes them")
set(CPACK_PACKAGE_CONTACT "${MT_PACKAGE_MAINTAINER}")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program development)
if(TARGET memtrace_cuda OR TARGET memtrace_cupti)
    list(APPEND CPACK_COMPONENTS_ALL cuda)
endif()
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)

# The dependencies of a package are read from its files where there is a tool that reads them. OpenBLAS is named here,
# since the program loads it late (kernels/cpu/matmul.c) and no file refers to it. CUDA's libraries, which the modules
# need, come from one of several packages or from none of the distribution's: the user brings them, like the driver.
find_program(MT_SHLIBDEPS dpkg-shlibdeps)
mark_as_advanced(MT_SHLIBDEPS)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME memtrace)
if(MT_SHLIBDEPS)
    set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
endif()
if(NOT MT_STATIC_LIBS)
    set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS libopenblas0)
endif()
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
    "Traces what a program allocates on a GPU, and why, and answers questions about it.")
foreach(package IN ITEMS DEVELOPMENT CUDA)
    set(CPACK_DEBIAN_${package}_PACKAGE_SHLIBDEPS OFF)
    set(CPACK_DEBIAN_${package}_PACKAGE_DEPENDS "memtrace (= ${PROJECT_VERSION})")
endforeach()
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libmemtrace-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "libsqlite3-dev, zlib1g-dev") # for libmemtrace.a
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Header and libraries for programs that label their GPU memory
 Link with libmemtrace to write traces that memtrace reads, or to ask them.")
set(CPACK_DEBIAN_CUDA_PACKAGE_NAME memtrace-cuda)
set(CPACK_COMPONENT_CUDA_DESCRIPTION "Modules of memtrace for NVIDIA GPUs
 They need NVIDIA's driver and, of the same version as they were built with, cuBLAS and CUPTI.")
include(CPack)
