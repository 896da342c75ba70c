#!/bin/sh
# Usage: install.sh CMAKE BUILD SOURCE CC [FLAGS]
# Installs a build, moves what was installed, and uses it from there as strangers do: the samples compiled by
# pkg-config, against the archive, and by a CMake project, their traces asked with the installed program, and a module
# for GPUs found. The Python package finds program and library.
set -eu
cmake=$1 build=$2 source=$3 cc=$4 flags=${5:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
unset LD_LIBRARY_PATH PKG_CONFIG_PATH

die() {
    echo "$*"
    exit 1
}

# expects FILE TEXT: the file has that text in it.
expects() {
    grep -qF -- "$2" "$1" || { cat "$1"; die "$1 lacks: $2"; }
}

"$cmake" --install "$build" --prefix "$folder/first" >log 2>&1 || { cat log; die "not installed"; }
mv first moved
prefix=$folder/moved
pc=$(find "$prefix" -name memtrace.pc)
libraries=$(dirname "$(dirname "$pc")")
samples=$prefix/share/doc/memtrace/samples

for file in bin/memtrace include/memtrace.h share/man/man1/memtrace.1 share/man/man1/memtrace-peak.1 \
    share/bash-completion/completions/memtrace share/doc/memtrace/samples/ask.c \
    lib/memtrace/python/memtrace/__init__.py; do
    [ -f "$prefix/$file" ] || die "$file was not installed"
done
for page in $(grep -rho 'docs/[a-z]*\.md' "$prefix/share/man" "$prefix/share/doc/memtrace/samples" | sort -u); do
    [ -f "$prefix/share/doc/memtrace/$page" ] || die "$page, which is referred to, was not installed"
done
! grep -rlF "$folder/first" "$prefix" || die "these know where they were installed"
! grep -rlF "$source/" "$prefix/include" "$libraries/cmake" "$pc" || die "these know the tree that they come from"

# Only memtrace_* may be seen, or programs that call something else mt_ would break.
nm -D --defined-only "$libraries/libmemtrace.so" | awk '$2 ~ /[TDBR]/ {print $3}' >names
nm -g --defined-only "$libraries/libmemtrace.a" | awk '$2 ~ /[TDBR]/ {print $3}' >>names
[ -s names ] || die "the libraries have no symbols"
! grep -vE '^(memtrace_|__(asan|ubsan|odr_asan)|_init$|_fini$)' names || die "these symbols should be hidden"

# The header, the library's package and the program speak of one version.
version=$(sed -n 's/^#define MEMTRACE_VERSION_[A-Z]* //p' "$prefix/include/memtrace.h" | paste -sd.)
[ "$(pkg-config --modversion "$pc")" = "$version" ] || die "memtrace.pc is not of version $version"
"$prefix/bin/memtrace" --version >said
expects said "$version"

# The Python package finds them from where it lies.
if command -v python3 >/dev/null; then
    export PYTHONPATH="$prefix/lib/memtrace/python" PYTHONDONTWRITEBYTECODE=1
    python3 -m memtrace --version >said
    expects said "$version"
    python3 -c 'from memtrace import _library; print(_library.find_library())' >said
    expects said "$libraries/libmemtrace.so.0"
    unset PYTHONPATH
fi

# asks NAME: the sample was run here; its trace has what it says that it took.
asks() {
    "$prefix/bin/memtrace" peak --by category --trace label.db >said
    expects said 'Convolution  16.00 MiB'
    "$prefix/bin/memtrace" timeline --trace label.db --output page.html >said 2>&1
    [ -s page.html ] || die "$1: the program has no page"
    rm label.db page.html
}

export PKG_CONFIG_PATH="$(dirname "$pc")"
$cc $flags "$samples/label.c" -o label $(pkg-config --cflags --libs memtrace) -Wl,-rpath,"$libraries"
./label
asks pkg-config
$cc $flags "$samples/ask.c" -o ask $(pkg-config --cflags --libs memtrace) -Wl,-rpath,"$libraries"
./label cpu:256MiB
./ask label.db >said
expects said 'peak 20971520 bytes'
expects said 'layers.*'
rm label.db
$cc $flags "$samples/label.c" -o label_static $(pkg-config --cflags memtrace) "$libraries/libmemtrace.a" \
    $(pkg-config --libs sqlite3 zlib jansson) -lm -ldl -pthread
! ldd label_static | grep -q libmemtrace || die "the archive was not used"
./label_static
asks archive

# CUDA's part in the sample that replaces it, for where there is none.
mkdir cuda
cat >cuda/cuda_runtime_api.h <<'END'
#include <stdlib.h>
typedef enum { cudaSuccess, cudaErrorMemoryAllocation = 2 } cudaError_t;
static inline cudaError_t cudaMalloc(void **out, size_t bytes)
{
    *out = malloc(bytes);
    return *out != NULL ? cudaSuccess : cudaErrorMemoryAllocation;
}
static inline cudaError_t cudaFree(void *pointer) { return free(pointer), cudaSuccess; }
static inline cudaError_t cudaMemset(void *to, int value, size_t bytes) 
{
    return to != NULL && value == 0 && bytes > 0 ? cudaSuccess : cudaErrorMemoryAllocation;
}
static inline const char *cudaGetErrorString(cudaError_t error) { return error == cudaSuccess ? "none" : "an error"; }
END
$cc $flags -I cuda "$samples/replace_malloc.c" -o replace_malloc \
    $(pkg-config --cflags --libs memtrace) -Wl,-rpath,"$libraries"
./replace_malloc
"$prefix/bin/memtrace" top --at peak --trace replace_malloc.db >said
expects said '16.00 MiB      1  16.00 MiB  none          Buffer    replace_malloc.c:'
expects said ' 4.00 MiB      1   4.00 MiB  none          Buffer    replace_malloc.c:'
"$prefix/bin/memtrace" events --trace replace_malloc.db >said
[ "$(grep -c " alloc " said)" -eq 2 ] && [ "$(grep -c " free " said)" -eq 2 ] ||
    { cat said; die "what it took was not given back"; }

mkdir project
cat >project/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.22)
project(stranger C)
find_package(memtrace 0.2 REQUIRED)
add_executable(shared $samples/label.c)
target_link_libraries(shared PRIVATE memtrace::memtrace)
add_executable(static $samples/label.c)
target_link_libraries(static PRIVATE memtrace::static)
END
"$cmake" -S project -B project/build -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_C_FLAGS="$flags" >log 2>&1 &&
    "$cmake" --build project/build >>log 2>&1 || { cat log; die "the CMake project does not build"; }
for program in shared static; do
    ./project/build/$program
    asks "CMake, $program"
done

# A module for GPUs that refuses, in a driver's presence: the program and the library find it in the prefix, and its
# words arrive. A real one would need a card.
cat >module.c <<'END'
#include "device/device.h"
#include "device/module.h"
#include <string.h>
static char *(*error_text)(void);
mt_module_attach_function mt_module_attach;
mt_status mt_cuda_open(int ordinal, struct mt_device **out);
void mt_module_attach(const struct mt_module_host *host) { error_text = host->error_text; }
mt_status mt_cuda_open(int ordinal, struct mt_device **out)
{
    (void)ordinal;
    *out = 0;
    strcpy(error_text(), "the module of the prefix was asked");
    return MT_NO_DEVICE;
}
END
mkdir -p driver "$prefix/lib/memtrace"
echo 'int cuInit(unsigned flags) { return (int)flags; }' >driver.c
$cc -shared -fPIC driver.c -o driver/libcuda.so.1
$cc -shared -fPIC -I "$source/src" -I "$source" module.c -o "$prefix/lib/memtrace/libmemtrace_cuda.so"
export LD_LIBRARY_PATH="$folder/driver"
code=0
"$prefix/bin/memtrace" run --device cuda --trace cuda.db 2>said || code=$?
[ $code -eq 4 ] || die "exit code $code without a card"
expects said 'the module of the prefix was asked'
! ./label cuda 2>said || die "a sample took a card that there is none of"
expects said 'the module of the prefix was asked'
echo "installed, moved and used"
