"""Checks that every header compiles alone and may be included twice.

usage: headers_test.py SOURCE_ROOT COMPILER FOLDERS -- COMPILER_ARGUMENTS...
FOLDERS are separated by commas. Two compilers run at a time.
"""
import concurrent.futures
import pathlib
import subprocess
import sys

JOBS = 2


def check(root, header, command):
    """What the compiler says against `header`; empty when nothing."""
    source = f'#include "{header}"\n#include "{header}"\n'
    done = subprocess.run([*command, "-fsyntax-only", "-x", "c++", "-"], input=source, text=True,
                          capture_output=True, cwd=root, check=False)
    return "" if done.returncode == 0 else f"{header} does not compile alone:\n{done.stderr}"


def main():
    root, compiler, folders, separator, *arguments = sys.argv[1:]
    assert separator == "--", __doc__
    root = pathlib.Path(root)
    headers = [path.relative_to(root).as_posix() for folder in folders.split(",")
               for path in sorted((root / folder).rglob("*.h"))]
    assert len(headers) > 20, f"too few headers below {root}"
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        faults = [fault for fault in pool.map(
            lambda header: check(root, header, [compiler, *arguments]), headers) if fault]
    print("\n".join(faults))
    print(f"{len(headers) - len(faults)} of {len(headers)} headers compile alone")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
