# Writes the shell of the timeline page, everything but its data, to OUTPUT, out of the folder VIEWER: page.html with the
# style sheet, the page's modules and the worker's in it, and the policy that allows exactly these (docs/page.md).
#
# Modules are inlined by text: each comes before those that import it, its import lines go, and so do "export" and
# the lines of comments.
cmake_minimum_required(VERSION 3.22)

# Appends the modules that `file` imports, then itself, to the list in the global property `order`, each once.
function(collect file order)
    get_property(seen GLOBAL PROPERTY ${order})
    if(file IN_LIST seen)
        return()
    endif()
    file(READ "${VIEWER}/${file}" text)
    string(REGEX MATCHALL "\nimport [^\n;]* from \"\\./[a-z_]+\\.js\"" imports "\n${text}")
    foreach(line IN LISTS imports)
        string(REGEX REPLACE ".*\"\\./([a-z_]+\\.js)\"" "\\1" imported "${line}")
        collect(${imported} ${order})
    endforeach()
    set_property(GLOBAL APPEND PROPERTY ${order} ${file})
endfunction()

# One script out of the module `entry` and all that it needs, whose names are its own.
function(inline_modules entry out)
    collect(${entry} order_of_${entry})
    get_property(files GLOBAL PROPERTY order_of_${entry})
    set(script "(() => {\n\"use strict\";\n")
    foreach(file IN LISTS files)
        file(READ "${VIEWER}/${file}" text)
        string(REGEX REPLACE "\nimport [^\n]*" "" text "\n${text}")
        string(REPLACE "\nexport " "\n" text "${text}")
        # Lines of comments go, too: with their types they are a third of the program.
        string(REGEX REPLACE "(\n *(/\\*\\*|\\*/|\\*|\\* [^\n]*|/\\*\\* [^\n]*\\*/))+\n" "\n" text "${text}")
        if(text MATCHES "</script|\nexport|<!--")
            message(FATAL_ERROR "${file} can't be inlined: it holds \"${CMAKE_MATCH_0}\"")
        endif()
        string(APPEND script "${text}")
    endforeach()
    string(APPEND script "})();\n")
    set(${out} "${script}" PARENT_SCOPE)
endfunction()

# The SHA-256 of `text` as the policy spells it: base64 of 32 bytes, six bits a letter.
function(policy_hash text out)
    set(letters "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
    string(SHA256 digits "${text}")
    set(digits "${digits}00") # 33 bytes: eleven groups of three
    set(hash "")
    foreach(at RANGE 0 60 6)
        string(SUBSTRING ${digits} ${at} 6 group)
        foreach(shift 18 12 6 0)
            math(EXPR letter "(0x${group} >> ${shift}) & 63")
            string(SUBSTRING ${letters} ${letter} 1 letter)
            string(APPEND hash ${letter})
        endforeach()
    endforeach()
    string(SUBSTRING ${hash} 0 43 hash)
    set(${out} "'sha256-${hash}='" PARENT_SCOPE)
endfunction()

inline_modules(start.js start_script)
inline_modules(main.js page_script)
inline_modules(worker.js worker_script)
file(READ "${VIEWER}/page.css" style)
file(READ "${VIEWER}/page.html" page)
policy_hash("${start_script}" start_hash)
policy_hash("${page_script}" script_hash)
policy_hash("${style}" style_hash)
# From inside out, so that nothing that looks like a mark is found in what was put in.
string(REPLACE "@start_hash@" "${start_hash}" page "${page}")
string(REPLACE "@script_hash@" "${script_hash}" page "${page}")
string(REPLACE "@style_hash@" "${style_hash}" page "${page}")
string(REPLACE "@style@" "${style}" page "${page}")
string(REPLACE "@start@" "${start_script}" page "${page}")
string(REPLACE "@worker@" "${worker_script}" page "${page}")
string(REPLACE "@script@" "${page_script}" page "${page}")
file(WRITE "${OUTPUT}" "${page}")
