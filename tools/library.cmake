# The library, libmemtrace.so and libmemtrace.a, behind include/memtrace.h: src/api and the floors below it. Every symbol but
# memtrace_* is hidden in both.
#
#   src/api ─────────┬──▶ library_objects ─┬──────────────────────────▶ libmemtrace.so
#   folders' objects ┘                     └─▶ one object, names local ─▶ libmemtrace.a
#
# The archive needs real objects. Link-time optimization makes other ones of the folders, so that the library compiles the
# folders' sources again.
set(library_folders base kernels_cpu device alloc store query export answer operators run model file program analysis)
list(TRANSFORM library_folders PREPEND mt_)
file(GLOB library_sources CONFIGURE_DEPENDS src/api/*.c)
set(library_objects $<TARGET_OBJECTS:memtrace_objects>)
foreach(folder ${library_folders})
    if(CMAKE_INTERPROCEDURAL_OPTIMIZATION_RELEASE AND CMAKE_BUILD_TYPE STREQUAL "Release")
        get_target_property(folder_sources ${folder} SOURCES)
        list(FILTER folder_sources INCLUDE REGEX "\\.c$")
        list(APPEND library_sources ${folder_sources})
    else()
        list(APPEND library_objects $<TARGET_OBJECTS:${folder}>)
    endif()
endforeach()
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
add_library(memtrace_shared SHARED ${library_objects})
target_link_libraries(memtrace_shared PRIVATE ${library_needs})
# In options, generators do not quote every character that a folder may have: the path is relative to the linker's folder.
set(library_exports ${PROJECT_SOURCE_DIR}/src/api/memtrace.map)
file(RELATIVE_PATH library_exports_option ${PROJECT_BINARY_DIR} ${library_exports})
target_link_options(memtrace_shared PRIVATE -Wl,--exclude-libs,ALL -Wl,--version-script=${library_exports_option})
set_target_properties(
    memtrace_shared
    PROPERTIES OUTPUT_NAME memtrace
               EXPORT_NAME memtrace
               LINK_DEPENDS ${library_exports}
               LINKER_LANGUAGE C
               INTERPROCEDURAL_OPTIMIZATION_RELEASE OFF
               VERSION ${PROJECT_VERSION}
               SOVERSION ${PROJECT_VERSION_MAJOR})

set(one_object ${PROJECT_BINARY_DIR}/libmemtrace.o)
add_custom_command(
    OUTPUT ${one_object}
    COMMAND ${CMAKE_LINKER} -r -o ${one_object} ${library_objects}
    COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=memtrace_* ${one_object}
    DEPENDS ${library_objects}
    COMMAND_EXPAND_LISTS VERBATIM)
add_library(memtrace_static STATIC ${one_object})
set_source_files_properties(${one_object} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
set_target_properties(memtrace_static PROPERTIES OUTPUT_NAME memtrace EXPORT_NAME static LINKER_LANGUAGE C)
target_link_libraries(memtrace_static INTERFACE sqlite3 z jansson Threads::Threads ${CMAKE_DL_LIBS} m)

foreach(library IN ITEMS memtrace_shared memtrace_static)
    target_include_directories(${library} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                    $<INSTALL_INTERFACE:include>)
endforeach()
