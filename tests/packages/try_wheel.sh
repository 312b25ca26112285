#!/usr/bin/env bash
# try_wheel.sh WHEEL.whl [PYTHON...]: installs the wheel into a fresh environment of each Python (python3 by default),
# runs its program, and lets a script that never calls shutdown answer a prompt and end.
set -euo pipefail
wheel=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- python3
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
fail() { echo "try_wheel: $*" >&2; exit 1; }

cat >"$root/offline.py" <<'PYTHON'
from quire import LLM, SamplingParams

prompts = ["Hello, my name is", "Once upon a time"]
llm = LLM()
outputs = llm.generate(prompts, SamplingParams(temperature=0, max_tokens=8), use_tqdm=False)
assert [output.prompt for output in outputs] == prompts, outputs
assert all(len(output.outputs[0].token_ids) > 0 for output in outputs), outputs
PYTHON

cd "$root" # not beside the sources
for python in "$@"; do
  environment=$root/environment
  rm -rf "$environment"
  "$python" -m venv "$environment"
  "$environment/bin/pip" install -q --disable-pip-version-check "$wheel"
  "$environment/bin/quire" --version | grep -q '^quire ' || fail "$python: the program does not run"
  timeout 120 "$environment/bin/python" offline.py || fail "$python: expected an offline script to end well"
  echo "try_wheel: $(basename "$wheel") runs under $("$environment/bin/python" --version)"
done
