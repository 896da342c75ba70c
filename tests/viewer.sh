#!/bin/sh
# Usage: viewer.sh ROOT MEMTRACE STRANGE_TRACE
#
# Tests the timeline page in a browser: tests/viewer, with the pages that the program MEMTRACE writes, and of the trace
# that STRANGE_TRACE makes. Exit 77 (skipped) where Node, Chromium or the modules are missing; tools/setup test brings
# what can be had.
set -eu

skip() {
    echo "skipped: $1"
    exit 77
}

cd "$1/tests/viewer"
node -e 'process.exit(process.versions.node.split(".")[0] >= 20 ? 0 : 1)' 2>/dev/null || skip 'there is no Node 20 or newer'
CHROMIUM=${CHROMIUM:-$(command -v chromium || true)}
[ -n "$CHROMIUM" ] || skip 'there is no Chromium'
[ -d node_modules/playwright-core ] || skip 'npm ci was not run in tests/viewer'
export CHROMIUM MEMTRACE="$2" STRANGE_TRACE="$3"
exec node --test --test-concurrency=1
