#!/usr/bin/env bash
# Runs clang-tidy with the repository's .clang-tidy over every source that the build compiles.
# usage: tidy_test.sh SOURCE_ROOT BUILD_DIRECTORY CLANG_TIDY
set -euo pipefail
cd "$1"
/usr/bin/python3 - "$1" "$2" <<'PYTHON' | xargs -P 2 -n 4 "$3" -p "$2" --quiet --extra-arg=-Wno-unknown-warning-option
import json, os, sys
root, build = sys.argv[1:]
for entry in json.load(open(os.path.join(build, "compile_commands.json"))):
    path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
    if path.split(os.sep)[0] in ("engine", "server", "loadtest", "tests"):
        print(path)
PYTHON
