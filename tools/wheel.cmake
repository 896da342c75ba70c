# What the Python wheel holds besides the package (pyproject.toml): the program and its libraries, all in the folder
# memtrace/native, since each looks beside itself first. What they need of the system's libraries is inside of them
# (MT_STATIC_LIBS), except for jansson in the shared library: Debian's archive of it can't be linked into one. OpenBLAS, which is
# larger than all the rest, is not there: the built-in model on the device cpu takes the system's.
set(wheel_targets memtrace)
foreach(module memtrace_cuda memtrace_cupti memtrace_inject memtrace_torch memtrace_cudnn memtrace_driver memtrace_nvml)
    if(TARGET ${module})
        list(APPEND wheel_targets ${module})
    endif()
endforeach()
# CUDA's libraries are those of PyTorch, where it came as a wheel, too, before those of a toolkit.
foreach(module memtrace_cuda memtrace_cupti memtrace_inject)
    if(TARGET ${module})
        get_target_property(toolkit_folders ${module} INSTALL_RPATH)
        set_target_properties(${module} PROPERTIES INSTALL_RPATH "$ORIGIN/../../nvidia/cu13/lib;${toolkit_folders}")
    endif()
endforeach()
add_custom_target(wheel DEPENDS ${wheel_targets} memtrace_shared)
install(TARGETS ${wheel_targets} RUNTIME DESTINATION native COMPONENT wheel LIBRARY DESTINATION native COMPONENT wheel)

set_target_properties(memtrace_shared PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS memtrace_shared LIBRARY DESTINATION native COMPONENT wheel NAMELINK_SKIP)
# By name, since CMake does not look for what a library of another processor needs.
find_library(MT_JANSSON_LIBRARY jansson HINTS ${jansson_LIBRARY_DIRS} ${jansson_LIBDIR} REQUIRED)
mt_find_soname(${MT_JANSSON_LIBRARY} jansson_soname)
get_filename_component(jansson_file ${MT_JANSSON_LIBRARY} REALPATH)
install(FILES ${jansson_file} DESTINATION native COMPONENT wheel RENAME ${jansson_soname})
# The headers from which the package takes the declarations of C functions (python/memtrace/_declarations.py), and the
# sources of the library that gives a PyTorch a card (python/memtrace/dry/build.py).
install(FILES include/memtrace.h DESTINATION native/include COMPONENT wheel)
install(DIRECTORY src/producers/torch/dry DESTINATION native/src/producers/torch COMPONENT wheel)
install(FILES src/producers/torch/memtrace_torch.h src/producers/torch/torch_plan.h DESTINATION native/src/producers/torch COMPONENT wheel)
install(FILES src/operators/operator_call.h DESTINATION native/src/operators COMPONENT wheel)
# That library, compiled for releases of PyTorch.
set(MT_DRY_LIBRARIES "" CACHE PATH "Folder of tools/dry-libraries, whose libraries the wheel ships")
if(MT_DRY_LIBRARIES)
    install(DIRECTORY ${MT_DRY_LIBRARIES}/ DESTINATION native COMPONENT wheel FILES_MATCHING PATTERN dry-*.so)
endif()
install(FILES LICENSE DESTINATION . COMPONENT wheel)
