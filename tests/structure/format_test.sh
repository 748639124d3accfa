#!/usr/bin/env bash
# Checks that every C++ file is as clang-format leaves it.  usage: format_test.sh SOURCE_ROOT CLANG_FORMAT
set -euo pipefail
cd "$1"
folders=()
for folder in engine cli server loadtest tests docs; do
  [[ -d "$folder" ]] && folders+=("$folder")
done
find "${folders[@]}" \( -name '*.cc' -o -name '*.h' \) -print0 |
  xargs -0 -n 20 -P 2 "$2" --style=file --dry-run --Werror
