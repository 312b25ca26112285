"""Routes of llama.cpp's server over a real model."""
import json
import urllib.request

import harness
from process import Server


def events(server, body):
    request = urllib.request.Request(server.url + "/completion", json.dumps({**body, "stream": True}).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return [json.loads(line[len("data: "):]) for line in answer.read().decode().split("\n\n") if line]


def test_llama_stream_is_the_answer_in_one_piece(binary):
    with Server(binary, "--hardware", "none") as server:
        context = harness.Context(server.url, "none", server.process.pid)
        for body in ({"prompt": "Once", "n_predict": 12, "temperature": 0},
                     {"prompt": "Once", "n_predict": 9, "temperature": 1, "seed": 7, "return_tokens": True}):
            whole = context.post("/completion", body)
            parts = events(server, body)
            assert "".join(part["content"] for part in parts) == whole["content"], (parts, whole)
            assert [id for part in parts for id in part["tokens"]] == whole["tokens"], (parts, whole)
            for name in ("stop_type", "tokens_predicted", "tokens_evaluated", "prompt", "generation_settings"):
                assert parts[-1][name] == whole[name], name
        made = context.post("/completion", {"prompt": "Once", "n_predict": 40, "grammar": 'root ::= "yes" | "no"'})
        assert made["content"] in ("yes", "no"), made
        tokens = context.post("/tokenize", {"content": "Once upon", "add_special": False})["tokens"]
        assert context.post("/detokenize", {"tokens": tokens})["content"] == "Once upon"
