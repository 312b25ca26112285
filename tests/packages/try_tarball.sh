#!/usr/bin/env bash
# try_tarball.sh TARBALL.tar.gz: unpacks it into an empty folder and runs the program there as if
# the folder were the whole machine, without a C library, a shell or files of this one. If that
# needs rights which this user does not have, it prints SKIPPED and runs the program from a folder
# with another name.
set -euo pipefail
tarball=$(realpath "$1")
root=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$root"' EXIT
fail() { echo "try_tarball: $*" >&2; exit 1; }

mkdir -p "$root/opt" "$root/proc" "$root/tmp" "$root/dev"
tar -xzf "$tarball" -C "$root/opt"
top=$(ls "$root/opt")
mv "$root/opt/$top" "$root/opt/a folder" # it runs from anywhere
program="/opt/a folder/bin/quire"

if unshare --user --map-root-user --mount --pid --fork true 2>/dev/null; then
  inside() { unshare --user --map-root-user --mount --pid --fork --kill-child bash -c \
    'mount -t proc proc "$1/proc" && cd "$1" && shift && exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$@"' _ "$root" . "$@"; }
  where="a root without any library"
else
  echo "SKIPPED: no namespaces for this user; the program runs on this machine's files instead" >&2
  inside() { local name=$1; shift; env -i "$root$name" "$@"; }
  where="another folder"
fi

inside "$program" --version >"$root/version" || fail "the program does not run"
grep -q '^quire ' "$root/version" || fail "expected a version, got $(cat "$root/version")"
inside "$program" generate -p "Once upon a time" --max-tokens 4 --temperature 0 --hardware none >"$root/said" 2>"$root/log" ||
  { cat "$root/log"; fail "it does not generate"; }
[ -s "$root/said" ] || fail "it says nothing"

inside "$program" serve --port 0 --hardware none >"$root/served" 2>&1 &
server=$!
for _ in $(seq 300); do
  url=$(grep -o 'http://127.0.0.1:[0-9]*' "$root/served" | head -1) && break
  sleep 0.1
done
[ -n "${url:-}" ] || { cat "$root/served"; fail "it does not serve"; }
python3 - "$url" <<'PYTHON' || fail "it does not answer"
import json, sys, urllib.request
body = json.dumps({"prompt": "Once upon a time", "max_tokens": 4, "temperature": 0}).encode()
request = urllib.request.Request(sys.argv[1] + "/v1/completions", body, {"Content-Type": "application/json"})
assert json.load(urllib.request.urlopen(request, timeout=60))["usage"]["completion_tokens"] == 4
PYTHON
echo "try_tarball: $(basename "$tarball") runs in $where, $(du -h "$tarball" | cut -f1)"
