#!/bin/sh
# Usage: openblas_late.sh MEMTRACE [LIBRARY]
# Only a command that multiplies loads OpenBLAS, which starts its threads at once. LIBRARY, libmemtrace_torch.so, multiplies
# nothing and holds nothing of OpenBLAS. Neither does MEMTRACE, also where the system's libraries are linked statically.
set -eu
memtrace=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

die() {
    echo "$*"
    exit 1
}

# loads COMMAND...: true if the command maps OpenBLAS. The loader writes down what it maps.
loads() {
    rm -f files.*
    LD_DEBUG=files LD_DEBUG_OUTPUT=files "$memtrace" "$@" >said 2>&1 || { cat said; die "memtrace $* failed"; }
    grep -qE 'calling init: .*openblas' files.*
}

small='--vocab 64 --d-model 32 --d-ff 64 --layers 1 --heads 2 --seq 8 --batch 1 --steps 1'
# shellcheck disable=SC2086 # a list of words
loads run --device cpu $small || die 'a product on the CPU does not load OpenBLAS: this test can not see it'
# shellcheck disable=SC2086
! loads run --device sim $small || die 'a simulated run loads OpenBLAS'
for command in --version runs peak top advise cards; do
    ! loads $command || die "memtrace $command loads OpenBLAS"
done

unset OPENBLAS_NUM_THREADS # which tests of a busy machine may set

# One thread is all that the process can have: OpenBLAS would end it with a signal of its own. Limits do not hold for root.
alone='prlimit --nproc=1'
[ "$(id -u)" -ne 0 ] || alone='setpriv --reuid=65534 --clear-groups prlimit --nproc=1'
if [ "$(nproc)" -gt 1 ] && $alone "$memtrace" --version >said 2>&1; then
    # shellcheck disable=SC2086
    $alone "$memtrace" run --device cpu --no-trace $small >said 2>&1 && die 'a product has more threads than the limit'
    grep -q 'set OPENBLAS_NUM_THREADS=1' said || { cat said; die 'what is missing is not said'; }
    # shellcheck disable=SC2086
    OPENBLAS_NUM_THREADS=1 $alone "$memtrace" run --device cpu --no-trace $small >said 2>&1 || { cat said; die 'one thread does not do'; }
fi

for file in "$memtrace" ${2:+"$2"}; do
    ! grep -q gotoblas "$file" || die "$file holds OpenBLAS"
done
[ -z "${2:-}" ] || ! grep -q openblas "$2" || die "$2 refers to OpenBLAS"
echo 'OpenBLAS is loaded by products alone'
