#!/usr/bin/env bash
# From a bare Debian 12 to an answer of a real model: installs packages, builds, fetches the model, starts the
# cluster, asks, streams the answer, prints what it cost. May be run again at any time; then it takes seconds.
set -euo pipefail
cd "$(dirname "$0")"
. scripts/common.sh

usage() {
  cat <<'USAGE'
Usage: ./quickstart.sh [--once] [--device host] [--prompt TEXT] [options of `spillway run`]
  --once         exit after the answer; 0 only if it came
  --device host  run the GPU worker on the CPU although the machine has an NVIDIA device
  --prompt TEXT  another question
Without --once, on a terminal, it keeps serving until Ctrl-C.
USAGE
}

once=no
device=
prompt="Explain in two sentences why the sky is blue."
more=()
while [ $# -gt 0 ]; do
  case $1 in
    --once) once=yes ;;
    --device) [ $# -ge 2 ] || { usage >&2; exit 2; }; device=$2; shift ;;
    --device=*) device=${1#*=} ;;
    --prompt) [ $# -ge 2 ] || { usage >&2; exit 2; }; prompt=$2; shift ;;
    --prompt=*) prompt=${1#*=} ;;
    -h | --help) usage; exit 0 ;;
    *) more+=("$1") ;;
  esac
  shift
done

# A PCI display device of vendor 10de, or the driver.
has_nvidia() {
  [ -e /proc/driver/nvidia ] && return 0
  local folder
  for folder in /sys/bus/pci/devices/*; do
    [ "$(cat "$folder/vendor" 2>/dev/null)" = 0x10de ] || continue
    case $(cat "$folder/class" 2>/dev/null) in 0x03*) return 0 ;; esac
  done
  return 1
}

if [ -n "$device" ] && [ "$device" != host ]; then
  say "cause=backend_missing (F10): --device $device needs CUDA, which is not built yet; only --device host works."
  exit 4
fi
if [ -z "$device" ]; then
  if has_nvidia; then
    say "cause=backend_missing (F10): this machine has an NVIDIA device, but CUDA is not built yet."
    say "To go on with the GPU worker on the CPU, say so: ./quickstart.sh --device host"
    exit 4
  fi
  say "no NVIDIA device on this machine: the GPU worker runs as --device host --vram-budget 64MiB"
fi

need_packages "${build_packages[@]}"
[ -f build/release/build.ninja ] || configure release -DSPILLWAY_BUILD_TESTS=OFF
programs=(spillway spillway-gateway spillway-gpu-worker spillway-cpu-worker spillway-monitor)
if ! ninja -C build/release -n "${programs[@]}" | grep -q "no work to do"; then
  say "building; the first time takes some minutes"
  ninja -C build/release "${programs[@]}" >&2
fi
need_model "$model_file"

arguments=(--device host --vram-budget 64MiB --ctx-size 2048 --parallel 1 --prompt "$prompt" --max-tokens 256)
if [ "$once" = no ] && [ -t 0 ] && [ -t 1 ]; then arguments+=(--keep); fi
exec build/release/bin/spillway run "models/$model_file" "${arguments[@]}" ${more[@]+"${more[@]}"}
