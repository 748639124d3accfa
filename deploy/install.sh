#!/usr/bin/env bash
# Installs the Debian packages of the named lists that are not there yet.
#
#   deploy/install.sh run build demo test test-long
#
# Needs root or sudo. Does nothing, and needs neither, when all is there.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

if [[ $# -eq 0 ]]; then
  echo "usage: $0 LIST...   (LIST: run build demo test test-long)" >&2
  exit 2
fi

# "package [command]" lines of the lists, comments dropped.
entries() {
  local list
  for list in "$@"; do
    [[ -r "$here/packages-$list.txt" ]] || { echo "no list $here/packages-$list.txt" >&2; return 2; }
    sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$here/packages-$list.txt"
  done
}

wanted="$(entries "$@")"
installed="$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' | sed -n 's/^installed //p')"
missing=()
while read -r package command; do
  grep -qxF -- "$package" <<<"$installed" && continue
  [[ -n "$command" ]] && command -v "$command" >/dev/null && continue
  missing+=("$package")
done <<<"$wanted"

[[ ${#missing[@]} -eq 0 ]] && exit 0

as_root=()
if [[ "$(id -u)" -ne 0 ]]; then
  as_root=(sudo)
  [[ -t 0 ]] || as_root=(sudo -n)  # nobody is there to type a password
  if ! command -v sudo >/dev/null || ! "${as_root[@]}" true; then
    echo "Missing Debian packages, and neither root nor sudo to install them: ${missing[*]}" >&2
    exit 1
  fi
fi

install_missing() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >&2
}

echo "Installing ${#missing[@]} Debian packages: ${missing[*]}" >&2
# Package lists that are absent or too old to be downloaded from are fetched, then it is tried again.
if ! "${as_root[@]}" apt-get install -s -qq --no-install-recommends "${missing[@]}" \
    </dev/null >/dev/null 2>&1 || ! install_missing; then
  "${as_root[@]}" apt-get update -qq </dev/null >&2
  install_missing
fi
