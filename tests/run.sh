#!/usr/bin/env bash
# Installs what is missing, builds Tandem and runs its tests.
#
#   tests/run.sh [--all | --unit] [--preset NAME]
#
# --all adds the tests labelled `long`; --unit builds and runs those labelled `unit` alone, which is
# what sanitizers are for. Reference data outside the repository is tested when
# TANDEM_REFERENCE_DIR names its folder or ../shared is there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=release
lists=(run build demo test)
target=all
selection=(--label-exclude '^long$')
while [[ $# -gt 0 ]]; do
  case "$1" in
    --all) selection=(); lists+=(test-long) ;;
    --unit) target=unit_tests; selection=(--label-regex '^unit$' --label-exclude '^long$') ;;
    --preset) shift; preset="${1:?--preset needs a name}" ;;
    *) echo "usage: $0 [--all | --unit] [--preset NAME]" >&2; exit 2 ;;
  esac
  shift
done

reference="${TANDEM_REFERENCE_DIR:-}"
if [[ -z "$reference" && -d ../shared ]]; then
  reference="$(cd ../shared && pwd)"
fi

deploy/install.sh "${lists[@]}"
cmake --preset "$preset" -DTANDEM_REFERENCE_DIR="$reference"
cmake --build --preset "$preset" --target "$target"
ctest --test-dir "build/$preset" --output-on-failure --no-tests=error -j 2 "${selection[@]}"
