#!/usr/bin/env python3
"""The order in which sentence-transformers ranks 1,000 documents by all-MiniLM-L6-v2 in float32, and some of the vectors.

    tools/make_rerank_golden.py        needs sentence-transformers, and build/minilm (tools/fetch_minilm.sh)

Writes tests/goldens/rerank/minilm.json: the documents' numbers, best first, the smallest gap between neighbours' scores,
and the vectors of the first documents. Documents whose scores are nearer to each other than float32 can tell are left out.
"""

import base64
import json
import pathlib
import sys

import sentence_transformers

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import sentences

LEAST_GAP = 2e-6
NUM_VECTORS = 8


def main():
    model = sentence_transformers.SentenceTransformer(str(ROOT / "build" / "minilm"), device="cpu")
    texts = sentences.documents(1100)
    vectors = model.encode(texts, batch_size=64)
    scores = model.encode([sentences.QUERY]) @ vectors.T
    order = sorted(range(len(texts)), key=lambda i: -scores[0][i])
    kept = [order[0]]
    for index in order[1:]:
        if len(kept) < 1000 and scores[0][kept[-1]] - scores[0][index] >= LEAST_GAP:
            kept.append(index)
    assert len(kept) == 1000, len(kept)
    out = ROOT / "tests" / "goldens" / "rerank"
    out.mkdir(exist_ok=True)
    golden = dict(order=kept, least_gap=LEAST_GAP,
                  vectors=[base64.b64encode(vector.astype("<f4").tobytes()).decode() for vector in vectors[:NUM_VECTORS]],
                  sentence_transformers=sentence_transformers.__version__)
    (out / "minilm.json").write_text(json.dumps(golden) + "\n")
    print(f"scores {scores.max():.3f} to {scores.min():.3f}", (out / "minilm.json").stat().st_size // 1024, "KiB")


if __name__ == "__main__":
    main()
