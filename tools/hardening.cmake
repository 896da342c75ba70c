# Code of a release checks itself, since it reads files of strangers: a write past an array on the stack or past a buffer whose size the compiler knows
# ends the program (-fstack-protector-strong, _FORTIFY_SOURCE), no function is called through a table that can be written (-z relro -z now), and
# indirect jumps go to beginnings of functions (-fcf-protection). docs/reliability.md has the cost; tests/hardened.sh reads the files. Debug builds have
# sanitizers in their place, of which _FORTIFY_SOURCE would hide what it checks.
include(CheckCCompilerFlag)
include(CheckCSourceCompiles)

set(CMAKE_REQUIRED_FLAGS "-O2 -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
check_c_source_compiles("#include <features.h>
#if __USE_FORTIFY_LEVEL < 3
#error
#endif
int main(void) { return 0; }" MT_HAS_FORTIFY_3)
unset(CMAKE_REQUIRED_FLAGS)
check_c_compiler_flag(-fcf-protection MT_HAS_CF_PROTECTION)

set(hardening -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=$<IF:$<BOOL:${MT_HAS_FORTIFY_3}>,3,2>
              $<$<BOOL:${MT_HAS_CF_PROTECTION}>:-fcf-protection>)
add_compile_options("$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:C,CXX>>:${hardening}>")
add_link_options("$<$<CONFIG:Release>:-Wl,-z,relro,-z,now>")
