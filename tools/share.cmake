# Makes what is installed beside the program, by asking it: pages of the manual and completions for shells. PROGRAM is a list: an
# emulator, if the program is for another processor, and the program.
#   cmake -DPROGRAM=… -DOUTPUT=… -P share.cmake
file(REMOVE_RECURSE ${OUTPUT})

# Runs `memtrace help` with ARGN and writes what it prints to the file.
function(write_help file)
    execute_process(COMMAND ${PROGRAM} help ${ARGN} OUTPUT_VARIABLE text RESULT_VARIABLE result)
    if(NOT result EQUAL 0)
        message(FATAL_ERROR "${PROGRAM} help ${ARGN}: ${result}")
    endif()
    file(WRITE ${OUTPUT}/${file} "${text}")
endfunction()

execute_process(COMMAND ${PROGRAM} help --json OUTPUT_VARIABLE table RESULT_VARIABLE result)
if(NOT result EQUAL 0)
    message(FATAL_ERROR "${PROGRAM} help --json: ${result}")
endif()
string(JSON last LENGTH "${table}" rows)
math(EXPR last "${last} - 1")

write_help(man/man1/memtrace.1 --man)
foreach(row RANGE ${last})
    string(JSON command GET "${table}" rows ${row} name)
    write_help(man/man1/memtrace-${command}.1 ${command} --man)
endforeach()
write_help(bash-completion/completions/memtrace --completions bash)
write_help(zsh/site-functions/_memtrace --completions zsh)
write_help(fish/vendor_completions.d/memtrace.fish --completions fish)
