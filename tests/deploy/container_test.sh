#!/usr/bin/env bash
# Builds the Dockerfile with buildah on a base image made by debootstrap, looks into the image, and lets
# its entry point answer requests as the user it names.  usage: container_test.sh SOURCE_ROOT; root only.
set -euo pipefail
source_root="$1"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source "$here/base_system.sh"

if [[ "$(id -u)" -ne 0 ]]; then
  echo "debootstrap and chroot isolation need root" >&2
  exit 1
fi

work="$(mktemp -d /var/tmp/tandem-container.XXXXXX)"
buildah_here() { buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }
cleanup() {
  buildah_here rm --all >/dev/null 2>&1 || true
  rm -rf "$work"
}
trap cleanup EXIT

say() { echo "== $*"; }
fail() { echo "FAILED: $*" >&2; exit 1; }
inspect() { buildah_here inspect --type image --format "{{$1}}" localhost/tandem; }
image_bytes() { buildah_here images --json "$1" | /usr/bin/python3 -c '
import json, sys
print(int(float(json.load(sys.stdin)[0]["size"].split()[0]) * 1e6))'; }

say "base image"
make_base_system "$work/base"
base="$(buildah_here from scratch)"
tar -C "$work/base" -cf "$work/base.tar" .
buildah_here add -q "$base" "$work/base.tar" / >/dev/null
buildah_here commit -q "$base" localhost/base >/dev/null
buildah_here rm "$base" >/dev/null
rm -rf "$work/base" "$work/base.tar"

say "building the Dockerfile"
buildah_here bud --isolation chroot --format docker --layers=false \
  --build-arg BASE_IMAGE=localhost/base -t localhost/tandem "$source_root" >"$work/bud.log" 2>&1 ||
  { tail -n 60 "$work/bud.log" >&2; fail "the image does not build"; }

say "what the image says of itself"
[[ "$(inspect .Docker.Config.User)" == 1000:1000 ]] || fail "user is $(inspect .Docker.Config.User)"
[[ "$(inspect .Docker.Config.Entrypoint)" == "[tandem]" ]] || fail "entry point"
for port in 8000 8001 8002; do
  [[ "$(inspect .Docker.Config.ExposedPorts)" == *"$port/tcp"* ]] || fail "port $port is not exposed"
done
health="$(inspect .Docker.Config.Healthcheck.Test)"
[[ "$health" == "[CMD tandem health --addr 127.0.0.1:8001]" ]] || fail "health check is $health"

say "what is in it"
container="$(buildah_here from localhost/tandem)"
root="$(buildah_here mount "$container")"
for tool in 'clang*' 'g++*' 'gcc*' 'cc' 'c++' 'ld' 'cmake*' 'ninja*' 'python*' 'protoc*'; do
  found="$(find "$root"/usr/bin "$root"/usr/local/bin -name "$tool" -print -quit)"
  [[ -z "$found" ]] || fail "the image has ${found#"$root"}"
done
[[ "$(readlink "$root/usr/local/bin/tritonserver")" == tandem ]] || fail "no tritonserver link"
added=$(($(image_bytes localhost/tandem) - $(image_bytes localhost/base)))
say "the image adds $((added / 1000000)) MB to its base"
[[ "$added" -lt 80000000 ]] || fail "the image adds $added bytes to its base"

say "the entry point answers"
cp -r "$source_root/deploy/demo/repository" "$work/models"
chmod -R a+rX "$work/models"
chmod a+x "$work"
cat >"$work/run.sh" <<RUN
#!/usr/bin/env bash
exec buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs \
  run --isolation chroot -v "$work/models:/models:ro" "$container" -- "\$@"
RUN
chmod +x "$work/run.sh"
/usr/bin/python3 "$here/container_client.py" "$work/run.sh" || fail "the container does not serve"
say "passed"
