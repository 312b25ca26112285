"""LoRA adapters over real HTTP and through the verbs: requests name them as they name models, beside each other."""
import concurrent.futures
import json
import os
import shutil
import sys
import tempfile

import harness
from command import GREEDY, MODEL, ROOT, ok, refused, run
from process import Server

sys.path.insert(0, os.path.join(ROOT, "tools"))
from make_random_adapter import write_adapter  # noqa: E402

PROMPTS = ["Once upon a time there was a fox named Pip. " * 3 + end for end in ("One day", "He said", "The sun")]


def make_adapters(folder, **seeds):
    with open(os.path.join(MODEL, "config.json")) as file:
        config = json.load(file)
    for name, seed in seeds.items():
        write_adapter(config, os.path.join(folder, name), rank=4 + seed % 3, seed=seed, scale=0.3)


def serve(binary, *flags):
    server = Server(binary, "--hardware", "none", *flags)
    context = harness.Context(server.url, "none", server.process.pid)
    context.wait_ready(60)
    return server, context


def ask(context, model, i=0):
    reply = context.post("/v1/completions", {"model": model, "prompt": PROMPTS[i % len(PROMPTS)], "max_tokens": 24, "seed": i,
                                             "temperature": 0.0 if i % 2 else 0.8, "logprobs": 3, "ignore_eos": True})
    assert reply["model"] == model, reply
    choice = reply["choices"][0]
    return choice["text"], choice["logprobs"]["token_logprobs"]


def test_adapters_in_a_crowd_answer_as_alone(binary):
    with tempfile.TemporaryDirectory() as folder:
        make_adapters(folder, a=1, b=2, c=3)
        names = ["quire-builtin", "a", "b", "c"]
        want = {}
        for name in names:  # each answer must be that of a server with only this adapter, or with none
            flags = () if name == "quire-builtin" else ("--lora-modules", f"{name}={folder}/{name}")
            server, context = serve(binary, *flags)
            with server:
                for i in range(6):
                    want[name, i] = ask(context, name, i)
        assert len({want[name, 1][0] for name in names}) == 4, "adapters change what is said"
        for extra in ((), ("--max-loras", "1", "--max-cpu-loras", "3"),
                      ("--num-gpu-blocks-override", "40", "--max-model-len", "256"),
                      ("--speculative-config", '{"method":"self","num_hidden_layers":3,"num_speculative_tokens":3}')):
            server, context = serve(binary, "--served-model-name", "quire-builtin", "--enable-lora", "--lora-modules",
                                    *(f"{name}={folder}/{name}" for name in "abc"), *extra)
            with server:
                jobs = [(name, i) for i in range(6) for name in names] * 2
                with concurrent.futures.ThreadPoolExecutor(16) as pool:
                    got = list(pool.map(lambda job: ask(context, *job), jobs))
                for job, answer in zip(jobs, got):
                    assert answer == want[job], (extra, job)
                context.wait_idle()
                assert context.metric("vllm:prefix_cache_hits_total") > 0


def test_adapters_come_and_go_while_requests_run(binary):
    with tempfile.TemporaryDirectory() as folder:
        shelf = os.path.join(folder, "shelf")
        make_adapters(shelf, one=1, two=2)
        make_adapters(folder, outside=3)
        server, context = serve(binary, "--lora-dir", shelf, "--max-loras", "2")
        with server:
            def post(path, **body):
                return context.request("POST", path, body)

            base = context.model
            assert post("/v1/completions", model="x", prompt="a")[0] == 404
            status, _, text = post("/v1/load_lora_adapter", lora_name="x", lora_path="one")
            assert (status, text) == (200, "Success: LoRA adapter 'x' added successfully."), text
            assert post("/v1/load_lora_adapter", lora_name="x", lora_path="one")[0] == 400
            cards = {card["id"]: card for card in context.get("/v1/models")["data"]}
            assert cards["x"]["parent"] == base and cards["x"]["root"] == os.path.realpath(os.path.join(shelf, "one"))
            one = ask(context, "x", 1)
            assert one != ask(context, base, 1)
            with context.client().completions.create(model="x", prompt=PROMPTS[1], max_tokens=300, temperature=0.0,
                                                     stream=True, extra_body={"ignore_eos": True}) as stream:
                first = next(iter(stream))
                assert first.model == "x"
                assert context.metric("quire:lora_requests", lora_name="x", state="running") == 1
                metrics = context.request("GET", "/metrics")[2]
                assert 'running_lora_adapters="x"' in metrics and 'max_lora="2"' in metrics
                assert post("/v1/load_lora_adapter", lora_name="x", lora_path="two", load_inplace=True)[0] == 200
                streamed = first.choices[0].text + "".join(chunk.choices[0].text for chunk in stream)
            assert streamed.startswith(one[0]), "what runs keeps the adapter that it began with"
            two = ask(context, "x", 1)
            assert two != one
            assert post("/v1/load_lora_adapter", lora_name="y", lora_path="one")[0] == 200
            assert ask(context, "y", 1) == one
            assert post("/v1/load_lora_adapter", lora_name="z", lora_path="one")[0] == 429  # only two adapters fit
            assert post("/v1/unload_lora_adapter", lora_name="y")[0] == 200
            assert post("/v1/unload_lora_adapter", lora_name="y")[0] == 404
            assert post("/v1/completions", model="y", prompt="a")[0] == 404
            for path in ("../outside", os.path.join(folder, "outside"), "/etc", "one/../../outside", "."):
                status, _, text = post("/v1/load_lora_adapter", lora_name="w", lora_path=path)
                assert status == 400 and "--lora-dir" in text, (path, text)
            assert post("/v1/load_lora_adapter", lora_name="w", lora_path="nothing")[0] == 404
            assert ask(context, "x", 1) == two
        shutil.rmtree(os.path.join(shelf, "two"))


def test_adapter_files_that_lie(binary):
    with tempfile.TemporaryDirectory() as folder:
        make_adapters(folder, good=1, short=1, ranks=1, dora=1, pickled=1, other=1)
        with open(os.path.join(folder, "short", "adapter_model.safetensors"), "r+b") as file:
            file.truncate(5000)
        for name, change in (("ranks", {"r": 64}), ("dora", {"use_dora": True})):
            with open(os.path.join(folder, name, "adapter_config.json"), "w") as file:
                json.dump({"peft_type": "LORA", "r": 5, "lora_alpha": 8, **change}, file)
        os.rename(os.path.join(folder, "pickled", "adapter_model.safetensors"),
                  os.path.join(folder, "pickled", "adapter_model.bin"))
        write_adapter({"hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 4, "num_hidden_layers": 1},
                      os.path.join(folder, "other"))
        server, context = serve(binary, "--lora-dir", folder)
        with server:
            for name in ("short", "ranks", "dora", "pickled", "other"):
                status, _, text = context.request("POST", "/v1/load_lora_adapter", {"lora_name": "x", "lora_path": name})
                assert status in (400, 501), (name, status, text)
                assert json.loads(text)["error"]["message"], text
            assert context.request("POST", "/v1/load_lora_adapter", {"lora_name": "x", "lora_path": "good"})[0] == 200


def test_verbs_take_an_adapter(binary):
    with tempfile.TemporaryDirectory() as folder:
        make_adapters(folder, a=1, b=2)
        path = os.path.join(folder, "a")
        plain = ok(binary, "generate", *GREEDY).stdout
        adapted = ok(binary, "generate", *GREEDY, "--lora", path).stdout
        assert adapted != plain and adapted.startswith(plain[:10])
        assert ok(binary, "generate", *GREEDY, "--lora", path, "--dtype", "float32").stdout
        refused(binary, "nowhere", "generate", *GREEDY, "--lora", "/nowhere")
        for ranks in ("2", "4"):
            assert ok(binary, "generate", *GREEDY, "--lora", path, "--tensor-parallel-size", ranks).stdout == adapted, ranks
        assert ok(binary, "generate", *GREEDY, "--lora", path, "--pipeline-parallel-size", "2").stdout == adapted
        said = run(binary, "chat", "--lora", path, "--temperature", "0", "--max-tokens", "8")
        assert said.returncode == 0, said
        shown = ok(binary, "bench", "latency", "--input-len", "8", "--output-len", "4", "--batch-size", "4", "--num-iters", "1",
                   "--lora", path, "--lora", os.path.join(folder, "b")).stdout
        assert "adapters 2 among 4 requests" in shown, shown
        for flags in (("--lora-modules", "x"), ("--lora-modules", "{}"), ("--lora-modules", '{"name":"x"}'),
                      ("--lora-modules", f"x={path}", f"x={path}"), ("--lora-modules", f"quire-builtin={path}"),
                      ("--lora-modules", f"x={path}", f"y={path}", "--max-loras", "1", "--max-cpu-loras", "1"),
                      ("--enable-lora", "--max-loras", "0"), ("--lora-dir", "/nowhere")):
            done = run(binary, "serve", *flags, "--port", "0", "--hardware", "none")
            assert done.returncode == 1 and "lora" in done.stderr, (flags, done)


def test_batches_name_adapters(binary):
    with tempfile.TemporaryDirectory() as folder:
        make_adapters(folder, a=1)
        requests, answers = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out.jsonl")
        with open(requests, "w") as file:
            for name in ("quire-builtin", "a", "b"):
                body = {"model": name, "prompt": PROMPTS[0], "max_tokens": 8, "temperature": 0}
                file.write(json.dumps({"custom_id": name, "method": "POST", "url": "/v1/completions", "body": body}) + "\n")
        ok(binary, "run-batch", "-i", requests, "-o", answers, "--lora-modules", f"a={folder}/a")
        with open(answers) as file:
            lines = {line["custom_id"]: line["response"] for line in map(json.loads, file)}
        text = {name: lines[name]["body"]["choices"][0]["text"] for name in ("quire-builtin", "a")}
        assert text["a"] != text["quire-builtin"] and lines["b"]["status_code"] == 404, lines
