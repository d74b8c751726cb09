#!/bin/sh
# Formats every C file as .clang-format says; with --check it only tells, and fails, when one is not.
set -eu
cd "$(dirname "$0")/.."
files=$(find src tests -name '*.[ch]')
if [ "${1:-}" = --check ]; then
    clang-format --dry-run -Werror $files
else
    clang-format -i $files
fi
