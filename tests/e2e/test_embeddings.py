"""Embeddings, scores and classes: the routes through the official client, and the verbs."""
import base64
import json
import math
import os
import struct
import subprocess

import harness
import sentences
from process import Server

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
GOLDENS = os.path.join(ROOT, "tests", "goldens", "pooling")
MINILM = os.path.join(ROOT, "build", "minilm")

# The first values of the embedding that sentence-transformers 6.2 computes for "Hello world".
HELLO_WORLD = [-0.034477, 0.031023, 0.006735, 0.026109, -0.039362, -0.160302, 0.066924, -0.006441]


def golden(name):
    with open(os.path.join(GOLDENS, name, "golden.json")) as file:
        return json.load(file)["cases"]


def difference(a, b):
    assert len(a) == len(b), (len(a), len(b))
    return max(abs(x - y) for x, y in zip(a, b))


def served(binary, name):
    server = Server(binary, os.path.join(GOLDENS, name), "--hardware", "none")
    return server, harness.Context(server.url, "none", server.process.pid)


def minilm():
    if not os.path.exists(os.path.join(MINILM, "model.safetensors")):
        raise harness.Skip("no build/minilm: tools/fetch_minilm.sh fetches it")
    return MINILM


def test_embeddings_equal_transformers(binary):
    for name in ("xlm_roberta_cls", "qwen3_last", "gte_cls", "gte_ntk_cls", "jina_v3_mean", "t5_encoder_dense"):
        cases = golden(name)
        server, context = served(binary, name)
        with server:
            answer = context.client().embeddings.create(model=context.model, input=[case["ids"] for case in cases])
            assert answer.object == "list" and [d.index for d in answer.data] == list(range(len(cases)))
            assert answer.usage.prompt_tokens == sum(len(case["ids"]) for case in cases)
            for case, data in zip(cases, answer.data):
                assert difference(data.embedding, case["rows"][0]) < 2e-4, name
            packed = context.post("/v1/embeddings", {"input": cases[0]["ids"], "encoding_format": "base64"})
            raw = base64.b64decode(packed["data"][0]["embedding"])
            assert difference(struct.unpack(f"<{len(raw) // 4}f", raw), cases[0]["rows"][0]) < 2e-4


def test_classes_equal_transformers(binary):
    for name in ("bert_classifier", "qwen2_classifier"):
        cases = golden(name)
        server, context = served(binary, name)
        with server:
            answer = context.post("/classify", {"input": [case["ids"] for case in cases]})
            for case, data in zip(cases, answer["data"]):
                assert difference(data["probs"], case["rows"][0]) < 2e-4, name
                assert data["num_classes"] == len(case["rows"][0])


def test_routes_of_an_embedder(binary):
    import openai
    server, context = served(binary, "xlm_roberta_cls")
    with server:
        try:
            context.client().chat.completions.create(model=context.model, messages=[{"role": "user", "content": "a"}])
            raise AssertionError("an embedder answered a conversation")
        except openai.NotFoundError as error:
            assert "/v1/embeddings" in str(error), error
        try:
            context.client().embeddings.create(model=context.model, input=[[5] * 65])
            raise AssertionError("a text that is too long was taken")
        except openai.BadRequestError as error:
            assert "64 tokens; got 65" in str(error), error


def test_minilm_equals_sentence_transformers(binary):
    with Server(binary, minilm(), "--hardware", "none") as server:
        context = harness.Context(server.url, "none", server.process.pid)
        texts = ["Hello world", "Hi, earth", "The stock market fell on Monday."]
        data = context.client().embeddings.create(model=context.model, input=texts).data
        assert difference(data[0].embedding[:8], HELLO_WORLD) < 2e-5, data[0].embedding[:8]
        ranks = context.post("/v1/rerank", {"query": texts[0], "documents": texts[1:]})["results"]
        assert [r["index"] for r in ranks] == [0, 1] and ranks[0]["relevance_score"] > 0.5, ranks
        long = context.post("/v1/embeddings", {"input": "word " * 999, "truncate_prompt_tokens": -1})
        assert long["usage"]["prompt_tokens"] == 256


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def test_a_thousand_documents_in_the_order_of_sentence_transformers(binary):
    """Vectors must be as near as float32 and bfloat16 allow: a cosine of 0.99999, and of 0.9995."""
    with open(os.path.join(ROOT, "tests", "goldens", "rerank", "minilm.json")) as file:
        golden = json.load(file)
    texts = sentences.documents(1100)
    expected = [struct.unpack("<384f", base64.b64decode(vector)) for vector in golden["vectors"]]
    asked = sorted(golden["order"])
    for dtype, least in (("float32", 0.99999), ("bfloat16", 0.9995)):
        with Server(binary, minilm(), "--hardware", "none", "--dtype", dtype) as server:
            context = harness.Context(server.url, "none", server.process.pid)
            data = context.client().embeddings.create(model=context.model, input=texts[:len(expected)]).data
            for vector, row in zip(expected, data):
                assert cosine(vector, row.embedding) >= least, (dtype, cosine(vector, row.embedding))
            if dtype == "float32":
                ranks = context.post("/rerank", {"query": sentences.QUERY, "documents": [texts[i] for i in asked]})["results"]
                assert [asked[rank["index"]] for rank in ranks] == golden["order"]


def test_embed_and_rerank_in_the_terminal(binary):
    def lines(*arguments, text=None):
        done = subprocess.run([binary, *arguments], input=text, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()

    [row] = lines("embed", minilm(), "Hello world")
    assert difference(json.loads(row)[:8], HELLO_WORLD) < 2e-5
    assert len(lines("embed", minilm(), text="one\ntwo\n")) == 2
    ranks = lines("rerank", minilm(), "cat", "--top-n", "1", text="a car\na kitten\n")
    assert len(ranks) == 1 and ranks[0].endswith("a kitten"), ranks
    [ranks] = lines("rerank", minilm(), "cat", "a car", "a kitten", "--json")
    assert [result["index"] for result in json.loads(ranks)["results"]] == [1, 0], ranks
    done = subprocess.run([binary, "embed", "", "text"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "embeddings" in done.stderr, done.stderr
