#!/usr/bin/env bash
# check_reproducible.sh [--from-sources]: makes the Debian package, the tarball and the bill of materials twice and compares
# their bytes. Without options it packs the program in build/release, which shows that packing adds no time, order or name of a
# folder. With --from-sources it clones the last commit into two folders of different names and compiles it in each, with
# nothing shared between them; the wheel is made twice, too (after `./dev wheel`, whose tools it uses).
# $SOURCE_DATE_EPOCH is the time in the packages.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${SOURCE_DATE_EPOCH:?expected the time of the packages, in seconds of Unix}"
export SOURCE_DATE_EPOCH LC_ALL=C
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
say() { echo "check_reproducible: $*"; }

# pack SOURCES BUILD OUTPUT: makes the packages of a build.
pack() {
  mkdir -p "$3"
  local output
  output=$(realpath "$3")
  (cd "$2" && cpack -G DEB -B "$output" >"$output.log") || { cat "$output.log"; return 1; }
  rm -rf "$output/_CPack_Packages"
  "$1/packaging/tarball/make_tarball.py" "$2/quire" -o "$output" >/dev/null
  "$1/tools/make_sbom.py" "$2/quire" -o "$output/quire.cdx.json"
}

# compile FOLDER: clones the last commit into it and builds the program.
compile() {
  say "building in $1"
  git clone -q --no-hardlinks . "$1"
  (
    cd "$1"
    export CCACHE_DIR=$1.ccache # the wheel's build finds what this one compiled, and nothing of the other folder's
    cmake --preset release -DQUIRE_REPRODUCIBLE=ON -DQUIRE_BUILD_TESTS=OFF >/dev/null
    cmake --build build/release --target quire --parallel "${QUIRE_JOBS:-$(nproc)}" >/dev/null
  )
}

# wheel FOLDER OUTPUT TOOLS: makes the wheel of a folder's sources.
wheel() {
  (
    cd "$1"
    export CCACHE_DIR=$1.ccache PATH=$3/bin:$PATH
    pip wheel -q --no-deps -w build/wheel-raw -C cmake.define.QUIRE_REPRODUCIBLE=ON ./python
    auditwheel repair -w "$2" build/wheel-raw/quire-*.whl >/dev/null
  )
}

if [ "${1:-}" = --from-sources ]; then
  tools=$PWD/build/wheel-tools
  for folder in "$root/here" "$root/somewhere-else"; do
    compile "$folder"
    pack "$folder" "$folder/build/release" "$folder.packages"
    if [ -x "$tools/bin/auditwheel" ]; then
      wheel "$folder" "$folder.packages" "$tools"
    else
      say "SKIPPED: the wheel, because there is no build/wheel-tools (./dev wheel makes it)"
    fi
  done
else
  for folder in "$root/here" "$root/somewhere-else"; do
    pack "$PWD" "$PWD/build/release" "$folder.packages"
    sleep 2 # the clock goes on
  done
fi

(cd "$root/here.packages" && sha256sum -- *) >"$root/sums"
cat "$root/sums"
(cd "$root/somewhere-else.packages" && sha256sum --quiet -c "$root/sums") || {
  say "the bytes differ" >&2
  exit 1
}
say "$(wc -l <"$root/sums") files, each twice with equal bytes"
