#!/usr/bin/env bash
# The tables of docs/performance.md: Tandem beside ONNX Runtime on whole networks, with geometric means.
#
#   performance.sh BENCH_ENGINES NETWORKS QUANTISED OTHERS
#
# BENCH_ENGINES is the benchmark that a build with TANDEM_ONNXRUNTIME_DIR has in loadtest/; NETWORKS and
# QUANTISED are folders of ONNX files of float32 and of 8-bit networks of images, OTHERS of what is none.
set -euo pipefail
bench="$1"
networks=("$2"/*.onnx)
quantised=("$3"/*.onnx)
others=("$4"/*.onnx)
export ORT_DISABLE_TELEMETRY=1

# compare TITLE MODEL... -- FLAG...
compare() {
  local title="$1" models=()
  shift
  while [[ "$1" != "--" ]]; do models+=("$1"); shift; done
  shift
  printf '\n%s (`%s`)\n\n' "$title" "$*"
  "$bench" --iterations 21 "$@" "${models[@]}" | awk '
    NR == 1 { next }
    NR == 2 { printf "| network | Tandem, ms | ONNX Runtime, ms | ratio | of peak | load, ms | ONNX Runtime, ms | ratio "
              print "| memory, MiB | ONNX Runtime, MiB | ratio | apart |"
              print "|---|---|---|---|---|---|---|---|---|---|---|---|"; next }
    { for (i = 1; i <= NF; ++i) printf "| %s ", $i
      print "|"
      runs += log($4); loads += log($8); memories += log($11); n++ }
    END { printf "| geometric mean | | | %.2f | | | | %.2f | | | %.2f | |\n",
                 exp(runs / n), exp(loads / n), exp(memories / n) }'
}

if grep -q avx512vl /proc/cpuinfo; then level=avx512; else level=avx2; fi
compare "One thread" "${networks[@]}" -- --threads 1 --cpu "$level"
compare "Two threads" "${networks[@]}" -- --threads 2 --cpu "$level"
compare "Batch 8, two threads" "${networks[@]}" -- --threads 2 --cpu "$level" --batch 8
compare "Transformer, perceptron and LSTM step, one thread" "${others[@]}" -- --threads 1 --cpu "$level"
compare "8-bit integers, one thread" "${quantised[@]}" -- --threads 1
if grep -q amx_bf16 /proc/cpuinfo; then
  compare "One thread, AMX" "${networks[@]}" -- --threads 1 --cpu amx
  compare "One thread, AMX, bfloat16" "${networks[@]}" -- --threads 1 --cpu amx --precision bf16
  compare "Two threads, AMX" "${networks[@]}" -- --threads 2 --cpu amx
  compare "Batch 8, two threads, AMX" "${networks[@]}" -- --threads 2 --cpu amx --batch 8
fi
