"""Several models in one process: loaded when they are asked for, unloaded for others, each with its own bits."""
import concurrent.futures
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

import harness
from process import Server
from test_adapters import make_adapters

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILTIN = os.path.join(ROOT, "assets", "builtin_model")
PROMPT = {"messages": [{"role": "user", "content": "Tell me a story."}], "temperature": 0, "max_tokens": 24}


def add_model(folder, name, **changes):
    """Adds the built-in model under another name, with changes of its config.json that change its answers."""
    target = os.path.join(folder, name)
    shutil.copytree(BUILTIN, target)
    path = os.path.join(target, "config.json")
    with open(path) as file:
        config = json.load(file)
    config.update(changes)
    with open(path, "w") as file:
        json.dump(config, file)
    return target


@contextlib.contextmanager
def folder_of_models():
    with tempfile.TemporaryDirectory() as folder:
        add_model(folder, "plain")
        add_model(folder, "turned", rope_theta=50.0)
        add_model(folder, "wide", rope_theta=9.0)
        broken = os.path.join(add_model(folder, "broken"), "model.safetensors")
        os.truncate(broken, os.path.getsize(broken) // 2)
        yield folder


@contextlib.contextmanager
def serving(binary, folder, *flags):
    with Server(binary, "--models-dir", folder, "--hardware", "none", "--kv-cache-memory", "64MiB", *flags) as server:
        yield server, harness.Context(server.url, "none", server.process.pid)


def states(context):
    return {card["id"]: card["status"]["value"] for card in context.get("/v1/models")["data"]}


def says(context, model):
    return context.post("/v1/chat/completions", {"model": model, **PROMPT})["choices"][0]["message"]["content"]


def wait_for(condition, seconds=20):
    end = time.time() + seconds
    while time.time() < end:
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("waited in vain")


def said_alone(binary, folder, names):
    """Returns the answer of each model on a server of its own."""
    texts = {}
    for name in names:
        with Server(binary, os.path.join(folder, name), "--hardware", "none", "--kv-cache-memory", "64MiB") as server:
            texts[name] = says(harness.Context(server.url, "none", None), name)
    assert len(set(texts.values())) == len(names), texts
    return texts


def test_models_are_loaded_when_asked_for_and_give_way(binary):
    with folder_of_models() as folder, serving(binary, folder, "--max-loaded-models", "2") as (_, context):
        assert set(states(context).values()) == {"unloaded"}, states(context)
        assert context.request("GET", "/health")[0] == context.request("GET", "/ready")[0] == 200
        says(context, "plain")
        says(context, "turned")
        says(context, "plain")
        assert states(context)["plain"] == states(context)["turned"] == "loaded", states(context)
        says(context, "wide")
        assert states(context) == {"broken": "unloaded", "plain": "loaded", "turned": "unloaded", "wide": "loaded"}
        for name, requests in (("plain", 2), ("wide", 1)):
            assert context.metric("vllm:request_success_total", model_name=name) == requests, name
        assert context.metric("quire:model_loaded") == 2 and context.metric("quire:model_memory_bytes", model_name="wide") > 0
        status, _, text = context.request("POST", "/v1/chat/completions", {"model": "nope", **PROMPT})
        assert status == 404 and "there are broken, plain, turned, wide" in text, text
        status, _, text = context.request("POST", "/v1/chat/completions", {"model": "turnd", **PROMPT})
        assert status == 404 and "did you mean turned?" in text, text
        status, _, text = context.request("POST", "/v1/chat/completions", PROMPT)
        assert status == 400 and "expected one of the 4 models" in text, text
        for path, name in (("/tokenize", "plain"), ("/v1/messages/count_tokens", "turned")):
            context.post(path, {"model": name, "prompt": "Hello"} if path == "/tokenize" else
                         {"model": name, "messages": PROMPT["messages"]})
        listed = subprocess.run([binary, "ps", "--url", context.url], capture_output=True, text=True, timeout=30)
        assert re.search(r"(?m)^turned +\d+ MiB +\d+ +\d+ +loaded$", listed.stdout), listed
        assert re.search(r"(?m)^broken +- +0 +- +unloaded$", listed.stdout), listed
        assert len(json.loads(subprocess.check_output([binary, "ps", "--url", context.url, "--json"]))) == 4
        lost = subprocess.run([binary, "ps", "--url", "http://127.0.0.1:9"], capture_output=True, text=True, timeout=30)
        assert lost.returncode == 1 and "127.0.0.1:9: Connection refused" in lost.stderr, lost
        context.post("/models/unload", {"model": "turned"})
        wait_for(lambda: states(context)["turned"] == "unloaded")
        assert context.post("/models/load", {"model": "turned"})["success"] and states(context)["turned"] == "loaded"
        assert context.get("/quire/stats?model=turned")["model"] == "turned"
    with folder_of_models() as folder, serving(binary, folder, "--model-keep-alive", "1") as (_, context):
        assert context.request("GET", "/quire/stats")[0] == 400  # none is in memory
        says(context, "plain")
        seen = []

        def is_gone():  # reading statistics does not count as use
            status, _, text = context.request("GET", "/quire/stats")
            seen.append(status == 200 and json.loads(text)["model"])
            return states(context)["plain"] == "unloaded"

        wait_for(is_gone)
        assert seen[0] == "plain", seen


def test_a_broken_model_harms_no_other(binary):
    with folder_of_models() as folder, serving(binary, folder) as (_, context):
        before = says(context, "plain")
        for _ in range(2):
            status, _, text = context.request("POST", "/v1/chat/completions", {"model": "broken", **PROMPT})
            assert status == 500 and "cannot be loaded" in text and "model.safetensors" in text, (status, text)
        assert states(context)["broken"] == "failed"
        assert says(context, "plain") == before and context.request("GET", "/health")[0] == 200


def test_same_bits_while_others_are_loaded_and_nothing_is_lost(binary):
    names = ["plain", "turned", "wide"]
    with folder_of_models() as folder:
        alone = said_alone(binary, folder, names)
        with serving(binary, folder, "--max-loaded-models", "2") as (server, context):
            failures, lock = [], threading.Lock()

            def client(index):
                for turn in range(5):
                    name = names[(index * 7 + turn * 3 + index // 3) % 3]
                    if index % 2:
                        with context.client() as openai:
                            parts = openai.chat.completions.create(model=name, stream=True, **PROMPT)
                            text = "".join(part.choices[0].delta.content or "" for part in parts)
                    else:
                        text = says(context, name)
                    if text != alone[name]:
                        with lock:
                            failures.append((name, text))

            with concurrent.futures.ThreadPoolExecutor(9) as pool:
                list(pool.map(client, range(9)))
            assert not failures, failures[:3]
            assert "unloaded" in server.output(), "no model gave way: the test tests nothing"


def test_memory_bounds_what_is_loaded(binary):
    with folder_of_models() as folder:
        with serving(binary, folder, "--max-loaded-models", "3", "--max-models-memory", "300MiB") as (_, context):
            for name in ("plain", "turned", "wide"):
                says(context, name)
                cards = context.get("/v1/models")["data"]
                assert sum(card["status"].get("memory_bytes", 0) for card in cards) <= 300 << 20, cards
        with serving(binary, folder, "--max-models-memory", "1MiB") as (_, context):
            status, _, text = context.request("POST", "/v1/chat/completions", {"model": "plain", **PROMPT})
            assert status == 500 and "--max-models-memory" in text, text


def test_aliases_and_a_folder_that_changes(binary):
    with folder_of_models() as folder, serving(binary, folder, "--model-alias", "gpt-4o=plain") as (server, context):
        assert says(context, "gpt-4o") == says(context, "plain")
        assert states(context)["gpt-4o"] == "loaded"
        add_model(folder, "later")
        assert "later" not in states(context)
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "later" in states(context))
        assert says(context, "later") == says(context, "plain")
        shutil.rmtree(os.path.join(folder, "later"))
        server.process.send_signal(signal.SIGHUP)
        wait_for(lambda: "later" not in states(context))
        assert context.request("POST", "/v1/chat/completions", {"model": "later", **PROMPT})[0] == 404
    with Server(binary, "--model-alias", "gpt-4o=quire-builtin", "--hardware", "none") as server:
        context = harness.Context(server.url, "none", None)
        assert [card["id"] for card in context.get("/v1/models")["data"]] == [context.model, "gpt-4o"]
        says(context, "gpt-4o")


def test_ollama_clients_see_the_folder(binary):
    import ollama
    with folder_of_models() as folder, serving(binary, folder) as (server, context):
        client = ollama.Client(host=server.url)
        assert [model.model for model in client.list().models] == ["broken", "plain", "turned", "wide"]
        assert all(model.size > 0 for model in client.list().models) and not client.ps().models
        assert client.generate(model="plain:latest", prompt="", keep_alive="10m").done_reason == "load"
        loaded = client.ps().models
        assert [model.model for model in loaded] == ["plain"] and loaded[0].expires_at.year < 2200, loaded
        assert "completion" in client.show("plain").capabilities and not client.show("turned").capabilities
        client.chat(model="plain", messages=PROMPT["messages"], options={"num_predict": 4}, keep_alive=0)
        wait_for(lambda: states(context)["plain"] == "unloaded")


def bits(context, model, i):
    """Returns the answer to a request, with its log-probabilities."""
    choice = context.post("/v1/completions", {"model": model, "prompt": "Once upon a time " + "a fox ran " * i, "seed": i,
                                              "temperature": 0.8 * (i % 2), "max_tokens": 20, "logprobs": 3,
                                              "ignore_eos": True})["choices"][0]
    return choice["text"], choice["logprobs"]["token_logprobs"], choice["logprobs"]["top_logprobs"]


def test_models_have_flags_adapters_and_drafts_of_their_own(binary):
    drafter = {"method": "draft_model", "model": BUILTIN, "num_speculative_tokens": 3, "enable_adaptive_verification": False}
    with folder_of_models() as folder, tempfile.TemporaryDirectory() as beside:
        make_adapters(beside, a=1, b=2)
        config = os.path.join(beside, "models.yaml")
        with open(config, "w") as file:
            file.write("plain:\n  max_model_len: 256\n  lora-modules:\n"
                       f"    - a={beside}/a\n    - {{name: b, path: {beside}/b}}\n"
                       f"turned:\n  speculative-config: {json.dumps(drafter)}\n")
        want = {}
        for name, flags in (("plain", ()), ("a", ("--lora-modules", f"a={beside}/a")), ("b", ("--lora-modules", f"b={beside}/b")),
                            ("turned", ())):
            path = os.path.join(folder, "turned" if name == "turned" else "plain")
            with Server(binary, path, "--hardware", "none", "--speculative-config", "none", *flags) as server:
                want[name] = [bits(harness.Context(server.url, "none", None), name, i) for i in range(4)]
        assert len({json.dumps(answers) for answers in want.values()}) == 4, "all say the same: the test tests nothing"
        with serving(binary, folder, "--models-config", config, "--per-request-spec-decode-metrics", "summary") as (server, context):
            assert states(context)["a"] == "unloaded"
            jobs = [(name, i) for i in range(4) for name in want]
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                got = list(pool.map(lambda job: bits(context, *job), jobs))
            for (name, i), answer in zip(jobs, got):
                assert answer == want[name][i], (name, i)
            drafts = context.post("/v1/completions", {"model": "turned", "prompt": "a", "max_tokens": 16, "ignore_eos": True})
            assert drafts["metrics"]["speculative_decoding"]["num_draft_tokens"] > 0, drafts
            cards = {card["id"]: card for card in context.get("/v1/models")["data"]}
            assert cards["a"]["parent"] == cards["b"]["parent"] == "plain" and cards["plain"]["max_model_len"] == 256, cards
            status, _, text = context.request("POST", "/v1/completions", {"model": "turned", "prompt": "a" * 300, "max_tokens": 1})
            assert status == 200, text  # the other model's limit does not apply
            with open(config, "w") as file:
                file.write("plain:\n  max-model-len: 128\n")
            context.post("/models/unload", {"model": "plain"})
            wait_for(lambda: states(context)["plain"] == "unloaded")
            says(context, "plain")  # the file is read again
            assert [card["max_model_len"] for card in context.get("/v1/models")["data"] if card["id"] == "plain"] == [128]
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: context.request("POST", "/v1/completions", {"model": "b", "prompt": "a"})[0] == 404)


def test_a_wrong_file_of_flags_is_refused(binary):
    wrong = (("plain:\n  port: 80\n", "line 2: a model has no flag port"),
             ("plain:\n  max-model-len: -7\n", "plain: "), ("plain: 7\n", "expected flags and their values"),
             ("plain:\n  device: cuda\n", "device must be cpu for models of a folder"),
             ("plain:\n  max-model-le: 7\n", "did you mean max-model-len?"), ("- plain\n", "expected lines such as"),
             ("plain:\n  lora-modules: turned=/nowhere\n", "has the name of a model"),
             ("plain:\n  lora-modules: x=/nowhere\nwide:\n  lora-modules: x=/nowhere\n", "expected a different name for each adapter"))
    with folder_of_models() as folder:
        config = os.path.join(folder, "models.yaml")
        for text, expected in wrong:
            with open(config, "w") as file:
                file.write(text)
            try:
                Server(binary, "--models-dir", folder, "--models-config", config)
            except RuntimeError as refusal:
                assert expected in str(refusal), (text, refusal)
            else:
                raise AssertionError(text)


def test_a_batch_asks_several_models(binary):
    names = ["plain", "turned", "wide", "broken", "plain"]
    with folder_of_models() as folder, tempfile.TemporaryDirectory() as files, \
            serving(binary, folder, "--files-dir", files, "--max-loaded-models", "1") as (_, context):
        lines = [json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/chat/completions",
                             "body": {"model": name, **PROMPT}}) for i, name in enumerate(names)]
        with context.client() as client:
            uploaded = client.files.create(file=("batch.jsonl", "\n".join(lines).encode()), purpose="batch")
            batch = client.batches.create(input_file_id=uploaded.id, endpoint="/v1/chat/completions", completion_window="24h")
            wait_for(lambda: client.batches.retrieve(batch.id).status in ("completed", "failed"))
            done = client.batches.retrieve(batch.id)
            assert (done.request_counts.completed, done.request_counts.failed) == (4, 1), done
            answers = [json.loads(line) for line in client.files.content(done.output_file_id).text.splitlines()]
        for answer in answers:
            said = answer["response"]["body"]["choices"][0]["message"]["content"]
            assert said == says(context, names[int(answer["custom_id"])]), answer


def test_a_drain_ends_what_runs(binary):
    with folder_of_models() as folder, serving(binary, folder) as (server, context):
        says(context, "plain")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            running = pool.submit(context.post, "/v1/completions",
                                  {"model": "plain", "prompt": "a", "max_tokens": 300, "ignore_eos": True})
            wait_for(lambda: context.metric("vllm:num_requests_running", model_name="plain") == 1)
            server.terminate()
            assert running.result()["usage"]["completion_tokens"] == 300
        assert server.wait() == 0, server.output()


def test_flags_about_one_model_are_refused(binary):
    with folder_of_models() as folder:
        for flags, expected in ((("--served-model-name", "x"), "only for a server of one model"),
                                (("--model-alias", "x=none"), "expected a model of"),
                                (("--model-alias", "x"), "expected NAME=MODEL")):
            try:
                Server(binary, "--models-dir", folder, *flags)
            except RuntimeError as refusal:
                assert expected in str(refusal), refusal
            else:
                raise AssertionError(flags)
