# The module libmemtrace_openblas.so: of OpenBLAS's archive the two products that kernels/cpu/matmul.c calls, for programs that run
# where OpenBLAS is not installed (MT_STATIC_LIBS).
mt_system_library(openblas Threads::Threads m)
set(openblas_exports ${PROJECT_BINARY_DIR}/openblas.map)
file(WRITE ${openblas_exports} "{ global: cblas_sgemm; cblas_dgemm; local: *; };\n")
file(WRITE ${PROJECT_BINARY_DIR}/openblas.c "")
add_library(memtrace_openblas MODULE ${PROJECT_BINARY_DIR}/openblas.c)
target_link_options(memtrace_openblas PRIVATE -Wl,-u,cblas_sgemm,-u,cblas_dgemm "-Wl,--version-script=${openblas_exports}")
target_link_libraries(memtrace_openblas PRIVATE system::openblas)
install(TARGETS memtrace_openblas LIBRARY DESTINATION lib/memtrace COMPONENT program)
