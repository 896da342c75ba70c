#!/bin/sh
# Usage: package.sh CPACK BUILD
# The Debian packages hold the files that they should, and the program's depends on the libraries that it is linked with
# and on OpenBLAS, which it loads late. Exits with 77 (skipped) where there are no tools for packages.
set -eu
cpack=$1 build=$2
for tool in dpkg-deb dpkg-shlibdeps fakeroot; do
    command -v $tool >/dev/null || { echo "skipped: there is no $tool"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

die() {
    echo "$*"
    exit 1
}

"$cpack" -G DEB --config "$build/CPackConfig.cmake" -B "$folder" >log 2>&1 || { cat log; die "no packages were made"; }

# holds PACKAGE FILE...: its list has these files.
holds() {
    package=$(echo "$folder"/$1_*.deb)
    dpkg-deb -c "$package" | awk '{print $6}' >list
    shift
    for file in "$@"; do
        grep -qE "^\./usr/$file\$" list || { cat list; die "$package lacks $file"; }
    done
}
libraries='lib(/[a-z0-9_]+-linux-gnu)?'
holds memtrace bin/memtrace "$libraries/libmemtrace\.so\.[0-9]+" share/man/man1/memtrace\\.1 \
    lib/memtrace/python/memtrace/_library\\.py share/bash-completion/completions/memtrace share/doc/memtrace/copyright \
    share/doc/memtrace/docs/import\\.md
! grep -E '^./usr/include/|\.a$|libmemtrace_cuda' list || die "these belong to other packages"
depends=$(dpkg-deb -f "$package" Depends)
needs='libc6 libsqlite3-0 zlib1g'
if grep -q '^MT_STATIC_LIBS:BOOL=ON' "$build/CMakeCache.txt"; then
    grep -q 'lib/memtrace/libmemtrace_openblas\.so$' list || die 'the program lacks OpenBLAS'
else
    needs="$needs libopenblas0"
fi
for name in $needs; do
    echo "$depends" | grep -q "$name" || die "the program needs $name, and depends on: $depends"
done
maintainer=$(sed -n 's/^MT_PACKAGE_MAINTAINER:STRING=//p' "$build/CMakeCache.txt")
[ "$(dpkg-deb -f "$package" Maintainer)" = "$maintainer" ] || die "its maintainer is not $maintainer"
dpkg-deb -x "$package" root
root/usr/bin/memtrace --version

holds libmemtrace-dev include/memtrace\\.h "$libraries/libmemtrace\.a" "$libraries/libmemtrace\.so" \
    "$libraries/pkgconfig/memtrace\.pc" "$libraries/cmake/memtrace/memtrace-config\.cmake" \
    share/doc/memtrace/samples/label\\.c
dpkg-deb -f "$package" Depends | grep -q '^memtrace (= ' || die "the header comes without its library"
if [ -f "$build/libmemtrace_cuda.so" ]; then
    holds memtrace-cuda lib/memtrace/libmemtrace_cuda\\.so
fi
echo "packed"
