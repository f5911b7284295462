#!/usr/bin/env bash
# Installs what the tests need, builds and runs them; the first failure ends it. The last lines are a summary
# of ctest.
#   ./test.sh          everything in release; parsers, engine and services with ASan+UBSan; pool, rpc and gateway with
#                      TSan; clang-tidy on changed files
#   ./test.sh --full   all tests in all three, clang-tidy on all files
set -euo pipefail
cd "$(dirname "$0")"
. scripts/common.sh

full=no
case ${1:-} in
  "") ;;
  --full) full=yes ;;
  *) say "unknown option $1; there is only --full"; exit 2 ;;
esac

test_packages=(
  ca-certificates ccache clang-format-14 clang-tidy-14 git libgmock-dev libgtest-dev prometheus prometheus-alertmanager
  python3 python3-pip python3-venv
)
asan_folders=(
  base gguf quant model tokenizer chat grammar sampling stage ref cpu plan fuzz
  rpc gateway telemetry monitor truth device
)
# Debian's gRPC is not instrumented; tests over it link spillway::test_grpc_order, which tells TSan what gRPC orders.
tsan_folders=(base rpc gateway)
sanitizers_leave_out='slow|integration'

# Debian starts a service when its package is installed; the tests want only the programs.
install_packages() {
  local policy=/usr/sbin/policy-rc.d ours=no
  if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' | as_root sh -c "cat > $policy && chmod 755 $policy"
    ours=yes
  fi
  local result=0
  need_packages "${build_packages[@]}" "${test_packages[@]}" || result=$?
  [ "$ours" = no ] || as_root rm -f "$policy"
  return "$result"
}

missing_packages() {
  local package
  for package in "${build_packages[@]}" "${test_packages[@]}"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || return 0
  done
  return 1
}

# Python packages in a folder of their own, again only when the list changes.
need_python_packages() {
  local list=tests/requirements.txt stamp=.venv/requirements.sha256
  if [ -f "$stamp" ] && sha256sum --check --status "$stamp" 2>/dev/null; then return 0; fi
  say "installing Python packages into .venv"
  python3 -m venv .venv
  .venv/bin/pip install --quiet --disable-pip-version-check -r "$list" >&2
  sha256sum "$list" >"$stamp"
}

# Names of the tests of some folders of tests/, as one expression for ctest -R.
tests_of() {
  local tree=$1 folder
  shift
  for folder in "$@"; do
    [ -d "$tree/tests/$folder" ] && ctest --test-dir "$tree/tests/$folder" -N | sed -n 's/^ *Test *#[0-9]*: *//p'
  done | sort -u | paste -sd '|' | sed 's/.*/^(&)$/'
}

# build_and_select TREE FOLDERS: builds what the folders' tests need.
build_folders() {
  local tree=$1 folder targets=()
  shift
  for folder in "$@"; do
    [ -d "tests/$folder" ] && [ -f "tests/$folder/CMakeLists.txt" ] && targets+=("tests/$folder/all")
  done
  ninja -C "$tree" "${targets[@]}"
}

changed_sources() {
  local base
  if [ "$full" = yes ]; then
    git ls-files '*.cc'
    return
  fi
  base=$(git merge-base HEAD '@{upstream}' 2>/dev/null || true)
  if [ -z "$base" ] || [ "$base" = "$(git rev-parse HEAD)" ]; then
    base=$(git rev-parse --verify --quiet HEAD~1 || git rev-parse HEAD)
  fi
  { git diff --name-only --diff-filter=d "$base"; git ls-files --others --exclude-standard; } |
    grep '\.cc$' | sort -u || true
}

run_tidy() {
  local sources limit=12
  mapfile -t sources < <(changed_sources)
  if [ "$full" = no ] && [ ${#sources[@]} -gt $limit ]; then
    say "clang-tidy: ${#sources[@]} files changed; the first $limit are checked here, all of them by --full"
    sources=("${sources[@]:0:$limit}")
  fi
  [ ${#sources[@]} -gt 0 ] || return 0
  say "clang-tidy on ${#sources[@]} files"
  printf '%s\0' "${sources[@]}" |
    xargs -0 -n 1 -P "$jobs" clang-tidy-14 -p build/release --quiet --warnings-as-errors='*' 2>&1 |
    { grep -v 'warnings generated\|^Suppressed\|^Use -header-filter' || true; }
}

jobs=$(nproc)
if missing_packages; then install_packages; fi
need_python_packages
need_model "$model_file"
need_model "$second_model_file" || say "without $second_model_file its test is skipped"
export PATH="$PWD/.venv/bin:$PATH"
export TSAN_OPTIONS="ignore_noninstrumented_modules=1 ${TSAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1 ${UBSAN_OPTIONS:-}"

configure release -DSPILLWAY_BUILD_TESTS=ON
ninja -C build/release
configure asan
configure tsan
quiet=(--output-on-failure --stop-on-failure -j "$jobs")
if [ "$full" = yes ]; then
  ninja -C build/asan
  ninja -C build/tsan
  run_tidy
  ctest --test-dir build/asan "${quiet[@]}"
  ctest --test-dir build/tsan "${quiet[@]}" -LE "$sanitizers_leave_out"
  ctest --test-dir build/release "${quiet[@]}"
else
  build_folders build/asan "${asan_folders[@]}"
  build_folders build/tsan "${tsan_folders[@]}"
  run_tidy
  ctest --test-dir build/asan "${quiet[@]}" -LE "$sanitizers_leave_out" -R "$(tests_of build/asan "${asan_folders[@]}")"
  ctest --test-dir build/tsan "${quiet[@]}" -LE "$sanitizers_leave_out" -R "$(tests_of build/tsan "${tsan_folders[@]}")"
  ctest --test-dir build/release "${quiet[@]}"
fi
