#!/usr/bin/env bash
# try_deb.sh PACKAGE.deb: unpacks the package, runs its program, and checks the files beside it.
set -euo pipefail
package=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
fail() { echo "try_deb: $*" >&2; exit 1; }

dpkg-deb -x "$package" "$root"
dpkg-deb -f "$package" Depends | grep -q libc6 || fail "expected libc6 among the dependencies"
program=$root/usr/bin/quire
"$program" --version | grep -q '^quire ' || fail "the program does not run"
"$program" generate -p "Once upon a time" --max-tokens 4 >"$root/said" 2>"$root/log" || { cat "$root/log"; fail "it does not generate"; }

completion=$root/usr/share/bash-completion/completions/quire
words=$(bash -c 'source "$1"; COMP_WORDS=(quire serve --device c); COMP_CWORD=3; _quire; echo "${COMPREPLY[@]}"' _ "$completion")
[ "$words" = "cpu cuda" ] || fail "completion of 'serve --device c': expected 'cpu cuda', got '$words'"
words=$(bash -c 'source "$1"; COMP_WORDS=(quire bench lat); COMP_CWORD=2; _quire; echo "${COMPREPLY[@]}"' _ "$completion")
[ "$words" = latency ] || fail "completion of 'bench lat': expected 'latency', got '$words'"
head -1 "$root/usr/share/zsh/vendor-completions/_quire" | grep -qx '#compdef quire' || fail "no completion for zsh"
grep -q 'complete -c quire' "$root/usr/share/fish/vendor_completions.d/quire.fish" || fail "no completion for fish"
# With grep -q, gzip would fail, because grep ends before gzip has written everything.
gzip -dcf "$root"/usr/share/man/man1/quire.1* | grep '^.TH QUIRE 1' >/dev/null || fail "no manual page"
unit=$root/usr/lib/systemd/system/quire.service
grep -q '^ExecStart=/usr/bin/quire serve' "$unit" || fail "no unit for systemd"
[ -f "$root/etc/default/quire" ] || fail "no /etc/default/quire"
echo "try_deb: $(basename "$package") runs, $(du -h "$package" | cut -f1)"
