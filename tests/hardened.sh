#!/bin/sh
# Usage: hardened.sh FILE...
# Reads ELF files of a release: each has what tools/hardening.cmake asks for. Files that are not there, as modules that were not built, are passed over.
set -eu
if ! command -v readelf >/dev/null || ! command -v objdump >/dev/null; then
    echo 'readelf or objdump is missing'
    exit 77
fi
failures=0

# need FILE WHAT PATTERN: what readelf has printed has a line of the pattern.
need() {
    grep -qE "$3" "$said" && return
    echo "$1: $2"
    failures=$((failures + 1))
}

# begins_marked FILE: an indirect jump may go there. x86 alone has the instruction.
begins_marked() {
    readelf -hW "$1" | grep -q 'Machine: .*X86-64' || return 0
    objdump -d --no-show-raw-insn "$1" 2>/dev/null | grep -q endbr64
}

said=$(mktemp)
trap 'rm -f "$said"' EXIT
for file in "$@"; do
    [ -e "$file" ] || continue
    readelf -hldW --dyn-syms "$file" >"$said"
    need "$file" 'is not position-independent' 'Type: +DYN'
    need "$file" 'functions are bound late' 'BIND_NOW|Flags:.* NOW'
    need "$file" 'its table of functions can be written' 'GNU_RELRO'
    need "$file" 'the stack is not protected' '__stack_chk_fail'
    need "$file" 'buffers are not checked' '__[a-z0-9]+_chk'
    if grep -qE 'GNU_STACK.* RWE|LOAD.* RWE' "$said"; then
        echo "$file: memory can be written and executed"
        failures=$((failures + 1))
    fi
    if ! begins_marked "$file"; then
        echo "$file: beginnings of functions are not marked"
        failures=$((failures + 1))
    fi
done
[ $failures -eq 0 ] || exit 1
echo 'the files are hardened'
