"""Runs clang-tidy with the repository's .clang-tidy over every source that the build compiles, without the
precompiled headers, which only a finished build has.

usage: tidy_test.py SOURCE_ROOT BUILD_DIRECTORY CLANG_TIDY

Two run at a time. A source that was clean is not looked at again before what the compiler reads of it and
of its headers, its compiler's flags or the checks change: BUILD_DIRECTORY/tidy holds an empty file for each, named
by a hash of these.
"""
import concurrent.futures
import hashlib
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

JOBS = 2
FOLDERS = ("engine", "cli", "server", "loadtest", "tests")
OF_PRECOMPILED = re.compile(r"-Winvalid-pch|(-Xclang )?-include(-pch)? (-Xclang )?\S*/cmake_pch\.hxx(\.pch)?")


def preprocessed(entry, root):
    """What the compiler reads, macros and comments included: these say what is not to be linted."""
    command = shlex.split(entry["command"])
    output = command.index("-o")
    del command[output:output + 2]
    command[command.index("-c")] = "-E"
    return subprocess.run([*command, "-C", "-P", "-dD", "-w", f"-fmacro-prefix-map={root}=."], cwd=entry["directory"],
                          stdout=subprocess.PIPE, check=True).stdout


def settings_of(folder, root):
    """The checks that hold in `folder`: its own file of them inherits the repository's."""
    return b"".join(path.read_bytes() for path in [root / ".clang-tidy", folder / ".clang-tidy"] if path.exists())


def lint(entry, root, linter, settings, clean):
    """What clang-tidy says against the source of `entry`; empty when nothing."""
    folder = pathlib.Path(entry["file"]).relative_to(root).parts[0]
    text = settings[folder] + entry["command"].encode() + preprocessed(entry, root)
    digest = hashlib.sha256(text).hexdigest()
    if (clean / digest).exists():
        return ""
    done = subprocess.run([*linter, entry["file"]], cwd=root, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    if done.returncode == 0:
        (clean / digest).touch()
        return ""
    return done.stdout


def main():
    root, build, clang_tidy = sys.argv[1:]
    root, build = pathlib.Path(root), pathlib.Path(build)
    clean = build / "tidy"
    clean.mkdir(exist_ok=True)
    version = subprocess.run([clang_tidy, "--version"], capture_output=True, check=True).stdout
    settings = {name: version + settings_of(root / name, root) for name in FOLDERS}
    entries = json.loads((build / "compile_commands.json").read_text())
    for entry in entries:
        entry["command"] = OF_PRECOMPILED.sub("", entry["command"])
        entry["file"] = str((pathlib.Path(entry["directory"]) / entry["file"]).resolve())
    sources = [entry for entry in entries if entry["file"].startswith(tuple(f"{root}/{name}/" for name in FOLDERS))]
    assert len(sources) > 100, f"too few sources in {build}"
    with tempfile.TemporaryDirectory() as database, concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        (pathlib.Path(database) / "compile_commands.json").write_text(json.dumps(entries))
        linter = [clang_tidy, "-p", database, "--quiet", "--extra-arg=-Wno-unknown-warning-option"]
        findings = 0
        for finding in pool.map(lambda entry: lint(entry, root, linter, settings, clean), sources):
            if finding:
                findings += 1
                print(finding, flush=True)
    print(f"{len(sources) - findings} of {len(sources)} sources are clean")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
