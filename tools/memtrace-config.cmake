# find_package(memtrace) gives the targets memtrace::memtrace, a shared library, and memtrace::static, whose users link
# SQLite, zlib and jansson, too.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
include(${CMAKE_CURRENT_LIST_DIR}/memtrace-targets.cmake)
