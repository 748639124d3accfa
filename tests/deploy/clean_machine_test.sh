#!/usr/bin/env bash
# Runs the two commands of README.md in a fresh minimal Debian, on a clean clone of the last commit.
# usage: clean_machine_test.sh SOURCE_ROOT; root only.
set -euo pipefail
source_root="$1"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/base_system.sh"

if [[ "$(id -u)" -ne 0 ]]; then
  echo "debootstrap and chroot need root" >&2
  exit 1
fi

work="$(mktemp -d /var/tmp/tandem-clean.XXXXXX)"
machine="$work/machine"
cleanup() {
  local folder
  for folder in dev/shm dev/pts dev proc; do
    umount "$machine/$folder" 2>/dev/null || true
  done
  # Nothing is removed while something is still mounted below it.
  grep -q " $machine/" /proc/mounts || rm -rf --one-file-system "$work"
}
trap cleanup EXIT

make_base_system "$machine"
mount -t proc proc "$machine/proc"
mount --bind /dev "$machine/dev"
mount -t tmpfs tmpfs "$machine/dev/shm"
git clone -q --no-hardlinks "file://$source_root" "$machine/root/tandem"

# Certificates of a registry behind a proxy, where this machine needs them, too.
certificates=()
if [[ -n "${NODE_EXTRA_CA_CERTS:-}" ]]; then
  cp "$NODE_EXTRA_CA_CERTS" "$machine/root/certificates.pem"
  certificates=(NODE_EXTRA_CA_CERTS=/root/certificates.pem)
fi

inside() {
  chroot "$machine" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    "${certificates[@]}" bash -c "cd /root/tandem && $1" </dev/null
}
echo "== deploy/quickstart.sh --once"
inside "deploy/quickstart.sh --once"
echo "== tests/run.sh"
inside "tests/run.sh"
echo "== both commands work on a clean machine"
