# The library, libmemtrace.so and libmemtrace.a, behind include/memtrace.h: src/api and the floors below it. Every symbol but
# memtrace_* is hidden in both.
#
#   sources ──▶ memtrace_objects ─┬──────────────────────────────▶ libmemtrace.so
#                                 └─▶ one object, names localized ─▶ libmemtrace.a
#
# They are compiled anew: the archive's must be real objects, and what the program's link-time optimization works on is
# none.
file(GLOB_RECURSE library_sources CONFIGURE_DEPENDS src/base/*.c kernels/cpu/*.c src/device/*.c src/alloc/*.c src/trace/*.c
     src/operators/*.c src/run/*.c src/producers/model/*.c src/producers/file/*.c src/producers/program/*.c
     src/analysis/*.c src/answer/*.c src/api/*.c)
list(FILTER library_sources EXCLUDE REGEX "/(cuda|cupti)/")
add_library(memtrace_objects OBJECT ${library_sources})
add_dependencies(memtrace_objects mt_store mt_file mt_answer) # which make the embedded headers
set_target_properties(memtrace_objects PROPERTIES INTERPROCEDURAL_OPTIMIZATION_RELEASE OFF C_VISIBILITY_PRESET hidden)
target_include_directories(memtrace_objects PRIVATE include src ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/embedded)
target_compile_definitions(memtrace_objects PRIVATE MT_VERSION="${PROJECT_VERSION}")
target_link_libraries(memtrace_objects PRIVATE PkgConfig::sqlite3 PkgConfig::zlib PkgConfig::jansson loaded_openblas
                                               Threads::Threads)

# The library is shared with the system's libraries also in a program that has them inside (MT_STATIC_LIBS), except in a
# wheel, which can't rely on them (tools/wheel.cmake).
set(library_needs PkgConfig::sqlite3 PkgConfig::zlib PkgConfig::jansson Threads::Threads ${CMAKE_DL_LIBS} m)
if(SKBUILD)
    list(TRANSFORM library_needs REPLACE "PkgConfig::(sqlite3|zlib)" "system::\\1")
endif()
add_library(memtrace_shared SHARED $<TARGET_OBJECTS:memtrace_objects>)
target_link_libraries(memtrace_shared PRIVATE ${library_needs})
target_link_options(memtrace_shared PRIVATE -Wl,--exclude-libs,ALL)
set_target_properties(
    memtrace_shared
    PROPERTIES OUTPUT_NAME memtrace
               EXPORT_NAME memtrace
               LINKER_LANGUAGE C
               INTERPROCEDURAL_OPTIMIZATION_RELEASE OFF
               VERSION ${PROJECT_VERSION}
               SOVERSION ${PROJECT_VERSION_MAJOR})

set(one_object ${PROJECT_BINARY_DIR}/libmemtrace.o)
add_custom_command(
    OUTPUT ${one_object}
    COMMAND ${CMAKE_LINKER} -r -o ${one_object} $<TARGET_OBJECTS:memtrace_objects>
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${one_object}
    DEPENDS memtrace_objects $<TARGET_OBJECTS:memtrace_objects>
    COMMAND_EXPAND_LISTS VERBATIM)
add_library(memtrace_static STATIC ${one_object})
set_source_files_properties(${one_object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
set_target_properties(memtrace_static PROPERTIES OUTPUT_NAME memtrace EXPORT_NAME static LINKER_LANGUAGE C)
target_link_libraries(memtrace_static INTERFACE sqlite3 z jansson Threads::Threads ${CMAKE_DL_LIBS} m)

foreach(library IN ITEMS memtrace_shared memtrace_static)
    target_include_directories(${library} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                    $<INSTALL_INTERFACE:include>)
endforeach()
