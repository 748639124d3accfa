#!/usr/bin/env bash
# Installs what is missing, builds Tandem, serves the demo model and asks it what a handwritten digit is.
#
#   deploy/quickstart.sh          leaves the server in the foreground; Ctrl-C stops it
#   deploy/quickstart.sh --once   stops it and ends with another code than 0 if anything was wrong
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

once=false
case "${1:-}" in
  "") ;;
  --once) once=true ;;
  *) echo "usage: $0 [--once]" >&2; exit 2 ;;
esac

deploy/install.sh run build demo
build=build/release
cmake --preset release
cmake --build --preset release --target tandem tandem_python_stubs

read -r grpc_port http_port metrics_port < <(/usr/bin/python3 deploy/demo/free_ports.py 8001 8000 8002)
grpc="127.0.0.1:$grpc_port"
tandem="$build/server/tandem"
"$tandem" --model-repository=deploy/demo/repository \
  --grpc-address=127.0.0.1 --http-address=127.0.0.1 --metrics-address=127.0.0.1 \
  --grpc-port="$grpc_port" --http-port="$http_port" --metrics-port="$metrics_port" &
server=$!

# Asks the server, the only process this script may end, to end, waits until it has answered what is
# under way, and reports how it ended. It may have had a terminal's Ctrl-C already: the second signal
# changes nothing then, and neither does one more end the waiting.
stop_server() {
  trap : INT TERM
  kill -TERM "$server" 2>/dev/null || true
  local code=0
  wait "$server" || code=$?
  while kill -0 "$server" 2>/dev/null; do
    code=0
    wait "$server" || code=$?
  done
  return "$code"
}
stop_and_exit() {
  local code=0
  trap - EXIT
  stop_server || code=$?
  exit "$code"
}
trap 'stop_server || true' EXIT

ready=false
for _ in $(seq 150); do
  kill -0 "$server" 2>/dev/null || { echo "The server ended before it was ready." >&2; exit 1; }
  if "$tandem" health --addr "$grpc" >/dev/null 2>&1; then ready=true; break; fi
  sleep 0.2
done
$ready || { echo "The server was not ready after 30 s." >&2; exit 1; }

echo
PYTHONPATH="$build/python" PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 deploy/demo/classify.py "$grpc"
echo
if $once; then stop_and_exit; fi
trap stop_and_exit INT TERM
echo "Tandem serves gRPC on $grpc, HTTP on 127.0.0.1:$http_port and metrics on 127.0.0.1:$metrics_port."
echo "Ctrl-C stops it."
wait "$server"
