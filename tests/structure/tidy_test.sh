#!/usr/bin/env bash
# Runs clang-tidy with the repository's .clang-tidy over every source that the build compiles, without
# the precompiled headers, which only a finished build has.
# usage: tidy_test.sh SOURCE_ROOT BUILD_DIRECTORY CLANG_TIDY
set -euo pipefail
cd "$1"
database="$(mktemp -d)"
trap 'rm -rf "$database"' EXIT
/usr/bin/python3 - "$1" "$2" "$database" <<'PYTHON' | xargs -P 2 -n 4 "$3" -p "$database" --quiet --extra-arg=-Wno-unknown-warning-option
import json, os, re, sys
root, build, database = sys.argv[1:]
of_precompiled = re.compile(r"-Winvalid-pch|(-Xclang )?-include(-pch)? (-Xclang )?\S*/cmake_pch\.hxx(\.pch)?")
entries = json.load(open(os.path.join(build, "compile_commands.json")))
for entry in entries:
    entry["command"] = of_precompiled.sub("", entry["command"])
json.dump(entries, open(os.path.join(database, "compile_commands.json"), "w"))
for entry in entries:
    path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), root)
    if path.split(os.sep)[0] in ("engine", "cli", "server", "loadtest", "tests"):
        print(path)
PYTHON
