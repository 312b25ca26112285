"""Quantizing, flags of the engine and of the server, as whole processes."""
import glob
import hashlib
import json
import math
import os
import re
import resource
import shutil
import socket
import struct
import tempfile

from command import GREEDY, LLAMA_8B, MODEL, PROMPT, ROOT, complete, fetch, generate, ok, read, refused, run
from harness import Skip
from process import Server


def digests(folder):
    return {name: hashlib.sha256(read(os.path.join(folder, name), "rb")).hexdigest() for name in os.listdir(folder)}


# quantize


def check_quantized(binary, scheme, most_perplexity_percent, least_same_best_percent):
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "small")
        done = ok(binary, "quantize", MODEL, "--to", scheme, "-o", output, "--report-tokens", "128")
        report = {line[:17].strip(): line[17:] for line in done.stdout.splitlines()}
        assert "written" in report and f"as {scheme}" in report["written"], done.stdout
        change = float(report["perplexity"].split("(")[1].split("%")[0])
        assert change < most_perplexity_percent, done.stdout
        assert float(report["same best token"].rstrip("% ")) > least_same_best_percent, done.stdout
        config = json.loads(read(os.path.join(output, "config.json")))["quantization_config"]
        assert config["quant_method"] == "compressed-tensors", config
        weights = os.path.join(output, "model.safetensors")
        assert os.path.getsize(weights) < os.path.getsize(os.path.join(MODEL, "model.safetensors"))
        assert not glob.glob(os.path.join(output, "*unfinished*")) and not glob.glob(os.path.join(output, "*.partial"))
        assert read(os.path.join(output, "tokenizer.json")) == read(os.path.join(MODEL, "tokenizer.json"))
        assert generate(binary, output) == generate(binary, output)
        before = digests(output)
        refused(binary, "not empty", "quantize", MODEL, "--to", scheme, "-o", output)
        refused(binary, "expected float weights", "quantize", output, "-o", os.path.join(folder, "twice"))
        assert digests(output) == before and os.listdir(folder) == ["small"]


def test_quantize_int8(binary):
    check_quantized(binary, "int8", 5, 85)


def test_quantize_int4_groups(binary):
    check_quantized(binary, "int4-g32", 25, 60)


def test_quantize_fp8(binary):
    check_quantized(binary, "fp8", 10, 80)


def test_quantize_takes_up_an_interrupted_run(binary):
    """A limit on file sizes kills the run twice: within the only shard, and behind it."""
    with tempfile.TemporaryDirectory() as folder:
        source, output, straight = (os.path.join(folder, name) for name in ("source", "output", "straight"))
        shutil.copytree(MODEL, source)
        with open(os.path.join(source, "notes.txt"), "wb") as notes:
            notes.truncate(12 << 20)  # larger than the shard; copied after it
        job = ("quantize", source, "--to", "int8", "--report-tokens", "0", "-o")

        def interrupted(file_bytes):
            def limit():
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
            done = run(binary, *job, output, preexec_fn=limit)
            assert done.returncode != 0, done
            assert "quantize.unfinished.json" in os.listdir(output) and "config.json" not in os.listdir(output)

        interrupted(1 << 20)
        assert "model.safetensors" not in os.listdir(output), os.listdir(output)
        refused(binary, "unfinished run of another job", "quantize", source, "--to", "fp8", "-o", output)
        half = run(binary, "generate", output, *GREEDY)
        assert half.returncode == 1 and len(half.stderr.strip().splitlines()) == 1, half
        interrupted(10 << 20)
        assert "model.safetensors" in os.listdir(output), os.listdir(output)
        assert "1 of 1 shards were complete" in ok(binary, *job, output).stdout
        assert "resumed" not in ok(binary, *job, straight).stdout
        files = digests(straight)
        assert {name: value for name, value in digests(output).items() if not name.endswith(".partial")} == files
        assert generate(binary, output) == generate(binary, straight)


def test_quantize_refuses_bad_input_in_one_line(binary):
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "out")
        empty = os.path.join(folder, "empty")
        cut = os.path.join(folder, "cut")
        os.mkdir(empty)
        shutil.copytree(MODEL, cut)
        os.truncate(os.path.join(cut, "model.safetensors"), 100_000)
        gguf = os.path.join(ROOT, "tests", "goldens", "models", "llama", "model.gguf")
        for model, said in ((os.path.join(folder, "none"), "none"), (empty, "config.json"), (cut, "model.safetensors"),
                            (gguf, "got a GGUF file")):
            refused(binary, said, "quantize", model, "-o", output)
        refused(binary, "got 'int3'", "quantize", MODEL, "--to", "int3", "-o", output)
        refused(binary, "--output", "quantize", MODEL)
        file = os.path.join(folder, "file")
        open(file, "w").close()
        refused(binary, "expected a folder, found a file", "quantize", MODEL, "-o", file)
        refused(binary, "no-such-text", "quantize", MODEL, "-o", os.path.join(folder, "b"), "--method", "awq",
                "--calibration", "/no-such-text")
        assert not os.path.exists(output) and not os.path.exists(os.path.join(folder, "b"))
        os.mkdir(os.path.join(folder, "full"))
        open(os.path.join(folder, "full", "notes"), "w").close()
        refused(binary, "not empty", "quantize", MODEL, "-o", os.path.join(folder, "full"), "--method", "awq")


def test_quantize_by_activations(binary):
    with tempfile.TemporaryDirectory() as folder:
        done = ok(binary, "quantize", MODEL, "--to", "int4-g32", "--method", "awq", "-o", os.path.join(folder, "out"),
                  "--report-tokens", "128")
        assert "same best token" in done.stdout, done.stdout
        generate(binary, os.path.join(folder, "out"))


# flags of the engine


def test_flags_are_refused_before_the_model_is_read(binary):
    """The model does not exist, so an error about a flag shows that flags are checked first."""
    none = "/no-such-model"
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for verb in (("serve", "--port", "0"), ("generate", "-p", "x"), ("bench", "latency"), ("bench", "throughput")):
            refused(binary, "--max-num-batched-tokens: expected >= --max-num-seqs (32), got 16", *verb, none,
                    "--max-num-seqs", "32", "--max-num-batched-tokens", "16")
            refused(binary, "expected auto, off or 1 to 3600000 milliseconds, got 0", *verb, none, "--max-step-ms", "0")
            refused(binary, "cannot-be/steps", *verb, none, "--step-log", os.path.join(folder, "cannot-be", "steps"))
            refused(binary, "expected a file that can be written", *verb, none, "--trace", folder)
            refused(binary, "h1000", *verb, none, "--hardware", "h1000")
        refused(binary, f"127.0.0.1 port {port}", "serve", none, "--port", port)
        refused(binary, "expected a path of at most 107 bytes", "serve", none, "--uds", os.path.join(folder, "x" * 120))
        refused(binary, "--api-key", "serve", none, "--port", "0", "--api-key", "")
        refused(binary, none, "serve", none, "--port", "0")


def test_cache_dir_is_used_and_mended(binary):
    with tempfile.TemporaryDirectory() as folder:
        cache = os.path.join(folder, "new", "cache")
        flags = (MODEL, "--cache-dir", cache)
        text = generate(binary, *flags)
        assert text == generate(binary, MODEL)
        (file,) = glob.glob(cache + "/*")
        first = os.stat(file)
        assert file.endswith(".weights") and first.st_size > 1 << 20
        assert generate(binary, *flags) == text
        assert (os.stat(file).st_ino, os.stat(file).st_mtime_ns) == (first.st_ino, first.st_mtime_ns), "written again"
        good = read(file, "rb")
        flipped = bytearray(good)
        flipped[len(good) // 2] ^= 0x10
        for damaged in (bytes(flipped), good[:5000], b"x" * len(good)):
            with open(file, "wb") as out:
                out.write(damaged)
            assert generate(binary, *flags) == text
            assert os.listdir(cache) == [os.path.basename(file)] and read(file, "rb") == good


def test_cache_dir_that_cannot_be_written_does_not_stop_a_start(binary):
    with tempfile.NamedTemporaryFile() as file:
        assert generate(binary, MODEL, "--cache-dir", os.path.join(file.name, "cache")) == generate(binary, MODEL)


def test_kv_cache_types(binary):
    texts = {}
    for name in ("float32", "fp8", "fp8_e4m3", "fp8_e5m2", "int8"):
        texts[name] = generate(binary, "--kv-cache-dtype", name)
    for name in ("fp8", "int8"):  # a prompt in pieces gives the same text
        assert generate(binary, "--kv-cache-dtype", name, "--max-num-batched-tokens", "2", "--max-num-seqs",
                        "1") == texts[name], name
    assert texts["fp8"] == texts["fp8_e4m3"]
    refused(binary, "int3", "generate", "--kv-cache-dtype", "int3", *GREEDY)


def test_shape_weights(binary):
    """A named shape gets random weights of the chosen type: they are smaller, and requests run."""
    mib = {}
    for weights in ("auto", "int4-g32"):
        with Server(binary, "--shape", "qwen2.5-0.5b", "--shape-weights", weights, "--hardware", "none",
                    "--max-model-len", "64", "--max-num-batched-tokens", "64", "--max-num-seqs", "8",
                    "--kv-cache-memory", "16MiB") as server:
            answer = complete(server.url, [5, 6, 7], 3)
            assert answer["usage"] == {**answer["usage"], "prompt_tokens": 3, "completion_tokens": 3}, answer
            (line,) = [line for line in server.output().splitlines() if line.split()[:1] == ["weights"]]
            value, unit = line.split()[1:3]
            mib[weights] = float(value) * {"MiB": 1, "GiB": 1024}[unit]
    assert mib["int4-g32"] < 0.7 * mib["auto"], mib
    load = ("--shape", "qwen2.5-0.5b", "--num-prompts", "1", "--input-len", "4", "--output-len", "2")
    refused(binary, "int3", "bench", "throughput", *load, "--shape-weights", "int3")
    refused(binary, "--shape-weights: expected auto", "bench", "throughput", "--num-prompts", "1", "--shape-weights", "int4-g32")
    refused(binary, "qwen2.5-0.5b", "bench", "throughput", "--shape", "no-such-shape")


def test_cuda_without_a_gpu_gives_one_clear_line(binary):
    if os.path.exists("/dev/nvidiactl"):
        raise Skip("a GPU is here")
    for verb in (("generate", *GREEDY), ("serve", "--port", "0")):
        refused(binary, "CUDA", verb[0], "--device", "cuda", *verb[1:])
    assert generate(binary, "--device", "auto") == generate(binary, "--device", "cpu")


def test_step_log_and_chrome_trace(binary):
    with tempfile.TemporaryDirectory() as folder:
        trace, log = os.path.join(folder, "trace.json"), os.path.join(folder, "steps.jsonl")
        generate(binary, "--trace", trace, "--step-log", log)
        events = json.loads(read(trace))
        names = {event["args"]["name"] for event in events if event["ph"] == "M"}
        steps = [event for event in events if event["ph"] == "X" and event["name"] == "step"]
        assert "steps" in names and len(steps) >= 24, events[:5]
        assert all(event["dur"] >= 0 and event["args"]["tokens"] >= 1 for event in steps)
        assert [event["ts"] for event in steps] == sorted(event["ts"] for event in steps)
        header, *lines = [json.loads(line) for line in read(log).splitlines()]
        assert header["quire_step_log"] == 1 and len(lines) == len(steps)
        assert sum(line["sampled"] for line in lines) == 24
        assert lines[0]["chunks"] and all(line["bound_us"] > 0 and line["execute_us"] > 0 for line in lines)
        for flag in ("--trace", "--step-log"):
            refused(binary, "/no/such/file", "generate", flag, "/no/such/file", *GREEDY)


def test_bad_flags_of_these_verbs_give_one_clear_line(binary):
    cases = [(("generate", "-p", "x", "--device", "tpu"), "expected one of cpu, cuda, auto, got tpu"),
             (("quantize", MODEL, "-o", "/no", "--method", "x"), "expected one of rtn, awq, got x"),
             (("quantize", MODEL, "-o", "/no", "--report-tokens", "-1"), "expected an integer in [0, 4096], got -1"),
             (("simulate", LLAMA_8B, "--scheduling-policy", "best"), "expected fcfs, priority or sjf, got best"),
             (("simulate", LLAMA_8B, "--memory-utilization", "2"), "expected a number in [0.01, 1], got 2"),
             (("simulate", LLAMA_8B, "--block-size", "x"), "expected an integer in [1, 1024], got x"),
             (("roofline", __file__, "--hardware", "h100-sxm"), "test_verbs.py: config.json: expected JSON"),
             (("generate", "-p", "x", "--max-model-len", "1"), "expected 2 (a prompt and an answer"),
             (("generate", "-p", "x", "--kv-cache-memory", "1KiB"), "at least 80.0 KiB for two blocks, got 1.0 KiB"),
             (("generate", "-p", "x", "--kv-offload-memory", "1GiB"), "expected none on a CPU without --kv-cache-dir"),
             (("serve", "--uds", "/no/such/folder/socket"), "no socket can be made"),
             (("serve", "--served-model-name", ""), "expected a non-empty text"),
             (("serve", "--shape", "llama-3.2-1b", MODEL), "expected a model or --shape"),
             (("serve", "--default-chat-template-kwargs", "[1]"), "expected a JSON object, got [1]"),
             (("serve", "--chat-template", "/no/such/file"), "--chat-template: expected a file or a Jinja template"),
             (("serve", "--chat-template", "{% for %}"), "chat template, line 1"),
             (("bench", "serve", "--host", "localhost", "--port", "1"), "cannot connect to localhost port 1: Connection")]
    for arguments, said in cases:
        refused(binary, said, *arguments)


# commands as a new user types them


def test_no_verb_prints_help(binary):
    for verbs, said in (((), "serve"), (("bench",), "latency")):
        bare, asked = ok(binary, *verbs), ok(binary, *verbs, "--help")
        assert bare.stdout == asked.stdout and said in bare.stdout and not bare.stderr, (verbs, bare)


def test_typos_get_the_nearest_name(binary):
    for arguments, said in ((("sevre",), "expected a verb, got 'sevre'; did you mean serve?"),
                            (("bench", "latecny"), "bench: expected a verb, got 'latecny'; did you mean latency?"),
                            (("generate", "-p", "x", "--max-tokns", "3"), "unknown argument --max-tokns; did you mean --max-tokens?"),
                            (("generate", "-p", "x", "--max_tokens=3"), "did you mean --max-tokens?"),
                            (("chat", "--sytem", "x"), "did you mean --system?"),
                            (("generate", "-p", "x", "--frobnicate"), "unknown argument --frobnicate; see --help"),
                            (("inspect", MODEL.replace("builtin", "built_in")), f"did you mean {MODEL}?"),
                            (("roofline", LLAMA_8B, "--hardware", "h100-smx"), "did you mean h100-sxm?")):
        refused(binary, said, *arguments)
    with Server(binary, "--hardware", "none", "--served-model-name", "qwen3-4b", "tiny") as server:
        for name, said in (("qwen-4b", "'qwen-4b' does not exist; did you mean qwen3-4b?"), ("gpt-4o-mini", "does not exist\"")):
            status, _, text = fetch(server.url, "/v1/completions", {"model": name, "prompt": "x"})
            assert status == 404 and said in text, text


def test_help_speaks_of_flags_and_not_of_the_parser(binary):
    for verbs in ((), ("serve",), ("chat",), ("generate",), ("tokenize",), ("inspect",), ("quantize",), ("bench",),
                  ("bench", "latency"), ("bench", "throughput"), ("bench", "serve"), ("bench", "kernels"), ("bench", "ablation"),
                  ("simulate",), ("plan",), ("compare",), ("roofline",), ("route",), ("pull",), ("ps",)):
        text = ok(binary, *verbs, "--help").stdout
        for leak in ("{false}", "{true}", "TEXT:", "INT:", "FLOAT:", "ENUM", "UINT"):
            assert leak not in text, (verbs, leak, [line for line in text.splitlines() if leak in line])
    text = ok(binary, "serve", "--help").stdout
    assert "--device cpu|cuda|auto" in text and "(in [0, 65535]; default 8000)" in text, text
    assert "--enable-prefix-caching, --no-enable-prefix-caching" in text, text


def test_models_that_are_not_there_are_explained(binary):
    with tempfile.TemporaryDirectory() as folder:
        refused(binary, "`hf download Qwen/Qwen3-0.6B --local-dir Qwen3-0.6B`", "inspect", "Qwen/Qwen3-0.6B")
        pointer = os.path.join(folder, "pointer")
        shutil.copytree(MODEL, pointer)
        with open(os.path.join(pointer, "model.safetensors"), "w") as file:
            file.write("version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 6954200\n")
        for verb in (("inspect",), ("generate", *GREEDY)):
            refused(binary, "run `git lfs pull` in " + pointer, verb[0], pointer, *verb[1:])
        refused(binary, "these are weights alone", "inspect", os.path.join(MODEL, "model.safetensors"))
        ggufs = os.path.join(folder, "ggufs")
        os.mkdir(ggufs)
        source = os.path.join(ROOT, "tests", "goldens", "models", "llama", "model.gguf")
        shutil.copy(source, ggufs)
        assert "llama" in ok(binary, "inspect", ggufs).stdout
        said = json.loads(ok(binary, "inspect", ggufs, "--json").stdout)
        assert said["architecture"] == "llama" and said["memory"]["total_bytes"] > said["memory"]["weights_bytes"] > 0, said
        assert sum(kind["elements"] for kind in said["tensors"].values()) >= said["num_parameters"] > 0, said
        shutil.copy(source, os.path.join(ggufs, "other.gguf"))
        refused(binary, "name one of model.gguf, other.gguf", "inspect", ggufs)


def test_errors_name_flags(binary):
    for arguments, said in ((("--max-model-len", "5000"), "--max-model-len: expected at most 2048"),
                            (("--kv-cache-dtype", "int3"), "--kv-cache-dtype: expected auto"),
                            (("--dtype", "int3"), "--dtype: expected auto"),
                            (("--isa", "sse"), "--isa: expected auto"),
                            (("--max-num-batched-tokens", "2000000"), "--max-num-batched-tokens: expected")):
        refused(binary, said, "generate", "--hardware", "none", *GREEDY, *arguments)
    refused(binary, "prompt: expected fewer than 16 tokens (--max-model-len)", "generate", "-p", "word " * 40,
            "--max-model-len", "16", "--quiet")


def test_bench_kernels_that_do_not_exist_fail(binary):
    done = run(binary, "bench", "kernels", "--filter", "nosuch")
    assert done.returncode == 1 and not done.stdout, done
    assert "--filter: no kernel's name contains 'nosuch'" in done.stderr, done


def test_benches_show_progress_when_asked(binary):
    load = ("--input-len", "4", "--output-len", "2", "--hardware", "none")
    for verb in (("latency", *load, "--num-iters", "1"), ("throughput", *load, "--num-prompts", "4")):
        assert "running" not in ok(binary, "bench", *verb).stderr
        done = ok(binary, "bench", *verb, "--progress")
        assert "running 50 %" in done.stderr and "running 100 %" in done.stderr, done
        # A share of more than 100 % of the bound must be explained.
        above = [share for share in re.findall(r"(\d+) % of the bound", done.stdout) if int(share) > 100]
        assert bool(above) == ("A share above 100 %" in done.stdout), done.stdout
    with Server(binary) as server:
        address = ("--host", "localhost", "--port", str(server.port), "--num-prompts", "2", "--random-input-len", "8",
                   "--random-output-len", "4")
        assert "running 100 %" in ok(binary, "bench", "serve", *address, "--progress").stderr
        assert "running" not in ok(binary, "bench", "serve", *address).stderr


def test_ablation_and_kernels_show_progress_when_asked(binary):
    ablation = ("bench", "ablation", "--num-prompts", "2", "--input-len", "4", "--min-output-len", "2",
                "--max-output-len", "3", "--num-kv-tokens", "512")
    assert "running" not in ok(binary, *ablation).stderr
    done = ok(binary, *ablation, "--progress")
    assert "running 50 %" in done.stderr and "running 100 %" in done.stderr, done
    assert "continuous, paged" in done.stdout, done
    kernels = ("bench", "kernels", "--filter", "llama-1b gate_up", "--rows", "1", "--threads", "1")
    done = ok(binary, *kernels, "--json")
    assert "kernels:" not in done.stderr and all(row["us"] > 0 for row in json.loads(done.stdout)["kernels"]), done
    done = ok(binary, *kernels, "--progress")
    assert re.search(r"^\d+ kernels: ", done.stderr, re.MULTILINE), done


def test_pages_write_numbers_as_people_do(binary):
    with Server(binary) as server:
        text = fetch(server.url, "/quire/stats")[2]
        uptime = text.split('"uptime_s":')[1].split(",")[0]
        assert "e" not in uptime.lower() and 0 <= float(uptime) < 60, text


# serve


TOOL = {"type": "function", "function": {"name": "add", "description": "Adds two numbers", "parameters": {
    "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}}}


def test_serve_with_reasoning_and_tool_parsers(binary):
    chat = {"messages": [{"role": "user", "content": "What is 2 + 3?"}], "temperature": 0, "max_tokens": 32}
    with Server(binary) as server:
        status, _, text = fetch(server.url, "/v1/chat/completions", chat)
        assert status == 200, text
        plain = json.loads(text)["choices"][0]["message"]["content"]
    with Server(binary, "--reasoning-parser", "qwen3", "--tool-call-parser", "hermes",
                "--enable-auto-tool-choice") as server:
        status, _, text = fetch(server.url, "/v1/chat/completions", chat)
        message = json.loads(text)["choices"][0]["message"]
        assert status == 200 and message["content"] == plain and not message.get("reasoning"), text
        assert not message.get("tool_calls"), text
        status, _, text = fetch(server.url, "/v1/chat/completions", {**chat, "tools": [TOOL], "tool_choice": "auto"})
        assert status == 200, text
        choice = json.loads(text)["choices"][0]
        assert (choice["finish_reason"] == "tool_calls") == bool(choice["message"].get("tool_calls")), text
        status, kind, text = fetch(server.url, "/v1/chat/completions", {**chat, "tools": [TOOL], "stream": True})
        assert status == 200 and kind.startswith("text/event-stream") and text.rstrip().endswith("data: [DONE]"), text
    with Server(binary, "--enable-auto-tool-choice") as server:  # the template shows the format of calls
        status, _, text = fetch(server.url, "/v1/chat/completions", {**chat, "tools": [TOOL], "tool_choice": "auto"})
        assert status == 200 and json.loads(text)["choices"][0]["finish_reason"] == choice["finish_reason"], text
    with Server(binary, "--tool-call-parser", "none", "--reasoning-parser", "none") as server:
        assert fetch(server.url, "/v1/chat/completions", {**chat, "tools": [TOOL]})[0] == 200
    refused(binary, "hermes", "serve", "--port", "0", "--tool-call-parser", "nope")
    refused(binary, "qwen3", "serve", "--port", "0", "--reasoning-parser", "nope")


def test_serve_with_a_template_of_its_own(binary):
    template = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}{{ suffix }}"
    chat = {"messages": [{"role": "user", "content": PROMPT}], "temperature": 0, "max_tokens": 8}
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as file:
        file.write(template)
        file.flush()
        for given in (template, file.name):
            with Server(binary, "--chat-template", given, "--default-chat-template-kwargs",
                        '{"suffix": " there"}') as server:
                rendered = json.loads(fetch(server.url, "/tokenize", {"messages": chat["messages"]})[2])["tokens"]
                plain = json.loads(fetch(server.url, "/tokenize", {"prompt": PROMPT + " there"})[2])["tokens"]
                assert rendered == plain, (rendered, plain)
                status, _, text = fetch(server.url, "/v1/chat/completions",
                                        {**chat, "chat_template_kwargs": {"suffix": ""}})
                answer = json.loads(text)["choices"][0]["message"]["content"]
                assert status == 200 and answer == complete(server.url, PROMPT, 8)["choices"][0]["text"], text


def test_a_template_of_the_request_serves_a_model_without_one(binary):
    chat = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model")
        shutil.copytree(MODEL, model, ignore=shutil.ignore_patterns("chat_template*"))
        config = os.path.join(model, "tokenizer_config.json")
        fields = json.loads(read(config))
        fields.pop("chat_template", None)
        with open(config, "w") as file:
            json.dump(fields, file)
        assert "chat template    none" in ok(binary, "inspect", model).stdout
        with Server(binary, model, "--trust-request-chat-template") as server:
            status, _, text = fetch(server.url, "/v1/chat/completions", chat)
            assert status == 400 and "has no chat template" in text, (status, text)
            status, _, text = fetch(server.url, "/v1/chat/completions",
                                    {**chat, "chat_template": "{{ messages[0].content }}"})
            assert status == 200, (status, text)


def test_serve_flags_reach_the_engine(binary):
    """The server and the engine each check their own limits and policies."""
    completion = {"prompt": PROMPT, "max_tokens": 2, "temperature": 0, "logprobs": 30, "priority": -3}
    with Server(binary, "--max-logprobs", "-1", "--scheduling-policy", "priority") as server:
        status, _, text = fetch(server.url, "/v1/completions", completion)
        assert status == 200, text
        assert [len(top) for top in json.loads(text)["choices"][0]["logprobs"]["top_logprobs"]] == [30, 30], text
        status, _, text = fetch(server.url, "/v1/completions", {**completion, "logprobs": -1})
        assert status == 200 and len(json.loads(text)["choices"][0]["logprobs"]["top_logprobs"][0]) > 1000, text[:300]
    with Server(binary, "--max-logprobs", "3", "--max-answer-size", "64KiB") as server:
        large = {**completion, "priority": 0, "logprobs": 3, "temperature": 1, "n": 50, "ignore_eos": True, "max_tokens": 9}
        status, _, text = fetch(server.url, "/v1/completions", large)
        assert status == 413 and "--max-answer-size" in text, text
        assert fetch(server.url, "/v1/completions", {**large, "n": 2})[0] == 200
        for wrong in ({**completion, "priority": 0}, {**completion, "logprobs": 3}):
            assert fetch(server.url, "/v1/completions", wrong)[0] == 400, wrong


def test_bench_latency_of_a_model_that_answers_faster_than_threads_wake(binary):
    done = ok(binary, "bench", "latency", "--input-len", "1", "--output-len", "2", "--num-iters", "1", "--hardware", "none")
    assert "decode" in done.stdout and "inf" not in done.stdout, done.stdout
    done = ok(binary, "bench", "latency", "--input-len", "4", "--output-len", "1", "--num-iters", "1")
    assert "prefill" in done.stdout and "decode" not in done.stdout, done.stdout


def test_bench_latency_with_a_schema(binary):
    bench = ("bench", "latency", "--batch-size", "2", "--input-len", "4", "--output-len", "8", "--num-iters", "1",
             "--hardware", "none")
    lasting = json.dumps({"type": "array", "items": {"type": "integer"}, "minItems": 100})
    shown = ok(binary, *bench, "--json-schema", lasting).stdout
    assert re.search(r"^schema  : prefill .* times the plain speed; decode .* times the plain speed", shown, re.MULTILINE), shown
    assert "schema" not in ok(binary, *bench).stdout
    refused(binary, "--json-schema: expected a schema that allows answers of 8 tokens", *bench, "--json-schema", '{"const": 1}')
    refused(binary, "--json-schema: ", *bench, "--json-schema", '{"type": "nothing"}')
    shape = ("--shape", "qwen2.5-0.5b", "--num-gpu-blocks-override", "16", "--shape-weights", "q4_0")
    refused(binary, "--json-schema: expected a model with a tokenizer", *bench, *shape, "--json-schema", lasting)


def test_bench_speculation_of_some_work(binary):
    bench = ("bench", "speculation", "--num-tokens", "16", "--num-streams", "2", "--num-repeats", "1", "--hardware", "none")
    shown = ok(binary, *bench, "--filter", "edit").stdout
    assert len(re.findall(r"^edit ", shown, re.MULTILINE)) == 2 and "random" not in shown, shown
    refused(binary, "--filter: no work's name contains 'nosuch'", *bench, "--filter", "nosuch")


def test_bench_serve_says_why_requests_failed(binary):
    with Server(binary) as server:
        port = server.url.rsplit(":", 1)[1]
        done = run(binary, "bench", "serve", "--host", "localhost", "--port", port, "--num-prompts", "2",
                   "--random-input-len", "5000", "--request-rate", "inf")
        assert done.returncode == 1 and "HTTP 400: This model's maximum context length is 2048" in done.stdout, done
        ok(binary, "bench", "serve", "--host", "localhost", "--port", port, "--num-prompts", "2", "--random-input-len",
           "8", "--random-output-len", "4")


def test_api_key_guards_data_and_not_the_page(binary):
    with Server(binary, "--api-key", "first", "--api-key", "second") as server:
        status, kind, text = fetch(server.url, "/")
        assert status == 200 and kind.startswith("text/html") and "<script" in text, text[:300]
        assert fetch(server.url, "/health")[0] == 200
        completion = {"prompt": PROMPT, "max_tokens": 4}
        routes = [("/v1/models", None), ("/quire/stats", None), ("/quire/steps", None), ("/v1/completions", completion),
                  ("/tokenize", {"prompt": PROMPT}), ("/v1/no/such/route", None)]
        for path, body in routes:
            for key in (None, "wrong", "firs", "firstsecond"):
                status, _, text = fetch(server.url, path, body, key)
                assert status == 401 and json.loads(text) == {"error": "Unauthorized"}, (path, key, status, text)
        for key in ("first", "second"):
            for path, body in routes[:-1]:
                status, _, text = fetch(server.url, path, body, key)
                assert status == 200, (path, key, status, text)
            assert fetch(server.url, "/v1/no/such/route", None, key)[0] == 404
        assert "first" not in server.output() and "second" not in server.output().replace("seconds", "")


# adapters


def write_adapter(folder, config, shapes):
    """Writes an adapter of zeros as PEFT saves it."""
    header, end = {}, 0
    for name, shape in shapes.items():
        size = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "adapter_config.json"), "w") as file:
        json.dump(config, file)
    with open(os.path.join(folder, "adapter_model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + bytes(end))


def test_adapters_tells_what_a_file_is(binary):
    stem = "base_model.model.model.layers.{}.self_attn.{}_proj.lora_{}.weight"
    shapes = {}
    for layer in range(2):
        for part in "qv":
            shapes[stem.format(layer, part, "A")] = [8, 32]
            shapes[stem.format(layer, part, "B")] = [16, 8]
    config = {"peft_type": "LORA", "r": 8, "lora_alpha": 16, "base_model_name_or_path": "small"}
    with tempfile.TemporaryDirectory() as folder:
        refused(binary, "not a PEFT adapter", "adapters", folder)
        write_adapter(folder, config, shapes)
        shown = ok(binary, "adapters", folder).stdout
        values = {line[:17].strip(): line[17:] for line in shown.splitlines()}
        assert values["kind"] == "LoRA" and values["rank"] == "8" and values["scale"] == "2", shown
        assert values["trained on"] == "small" and values["updates"] == "4", shown
        assert values["parameters"] == str(4 * (8 * 32 + 16 * 8)), shown
        assert re.search(r"q_proj +2, 32 inputs, 16 outputs", shown), shown
        stem = "base_model.model.model.layers.0.mlp.experts.{}lora_{}.weight"
        experts = {stem.format("base_layer.", "A"): [24, 32], stem.format("base_layer.", "B"): [40, 24],
                   stem.format("", "A"): [24, 20], stem.format("", "B"): [32, 24], "base_model.model.lm_head.weight": [50, 32]}
        write_adapter(folder, dict(config, target_parameters=["experts.gate_up_proj", "experts.down_proj"]),
                      {**shapes, **experts})
        shown = ok(binary, "adapters", folder).stdout
        assert re.search(r"experts +6, 20 to 32 inputs, 32 to 40 outputs", shown), shown
        assert re.search(r"whole modules +1\n +lm_head +1", shown), shown
        write_adapter(folder, dict(config, use_dora=True), shapes)
        refused(binary, "use_dora", "adapters", folder)
        write_adapter(folder, dict(config, use_dora=True),
                      {**shapes, **{name.replace("lora_B.weight", "lora_magnitude_vector"): shape[:1]
                                    for name, shape in shapes.items() if "lora_B" in name}})
        assert "DoRA" in ok(binary, "adapters", folder).stdout
        write_adapter(folder, dict(config, r=4), shapes)
        refused(binary, "expected shape [4, 32], got [8, 32]", "adapters", folder)
        os.rename(os.path.join(folder, "adapter_model.safetensors"), os.path.join(folder, "adapter_model.bin"))
        refused(binary, "pickle", "adapters", folder)


def test_shells_and_man_know_every_verb(binary):
    verbs = set(re.findall(r"^  ([a-z-]+)  ", ok(binary, "--help").stdout.split("Subcommands:")[1], re.M))
    assert {"serve", "chat", "completion"} <= verbs, verbs
    for shell in ("bash", "zsh", "fish"):
        text = ok(binary, "completion", shell).stdout
        for verb in verbs:
            assert verb in text, (shell, verb)
        assert "--max-model-len" in text or "-l max-model-len" in text, shell
    page = ok(binary, "man").stdout
    for verb in verbs:
        assert f".SH quire {verb}".replace("-", "\\-") in page, verb
    refused(binary, "expected one of bash, zsh, fish", "completion", "tcsh")


def settings(binary, text, *flags, **environment):
    """Returns the settings that `serve` would use, as lines of its --print-config."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "quire.yaml")
        with open(path, "w") as file:
            file.write(text)
        done = run(binary, "serve", "--config", path, "--print-config", *flags, env={**os.environ, **environment})
        return done.returncode, done.stdout.splitlines(), done.stderr.replace(path, "FILE"), path


def test_flags_from_a_file_and_the_environment(binary):
    text = """# a comment
port: 8100
max_model_len: 2k        # underscores are dashes
enable-prefix-caching: false
served-model-name: [one, "2"]
speculative-config: {method: suffix, num_speculative_tokens: 4}
trust-remote-code: true
"""
    code, lines, said, path = settings(binary, text, "--host", "0.0.0.0")
    assert code == 0, said
    for line in ("host: 0.0.0.0  # command line", f"port: 8100  # {path}: line 2",
                 f"enable-prefix-caching: false  # {path}: line 4", f"served-model-name: [one, 2]  # {path}: line 5"):
        assert line in lines, (line, lines)
    assert any(line.startswith("max-model-len: 2000 ") for line in lines), lines
    assert any(line.startswith('speculative-config: "{') and "suffix" in line for line in lines), lines
    assert "# block-size: 16" in lines, lines
    # The command line overrides the environment, which overrides the file.
    code, lines, said, _ = settings(binary, text, QUIRE_PORT="8200", QUIRE_BLOCK_SIZE="32")
    assert code == 0 and "port: 8200  # $QUIRE_PORT" in lines and "block-size: 32  # $QUIRE_BLOCK_SIZE" in lines, lines
    _, lines, _, _ = settings(binary, text, "--port", "8300", QUIRE_PORT="8200")
    assert "port: 8300  # command line" in lines, lines
    # The output is a file with the same settings.
    _, again, _, _ = settings(binary, "\n".join(lines))
    strip = [line.split("  # ")[0] for line in lines]
    assert [line.split("  # ")[0] for line in again] == strip, again
    _, lines, _, _ = settings(binary, "api-key: secret")
    assert not any("secret" in line for line in lines), lines


def test_files_of_flags_that_cannot_be(binary):
    for text, want in (("prot: 1", "FILE: line 1: serve has no flag prot; did you mean port?"), ("- a", "expected lines such as 'port: 8000'"),
                       ("port: [", "FILE: line"), ("port:", "port: expected a value"), ("a: &a [x]\nb: *a", "serve has no flag a"),
                       ("enforce-eager: maybe", "enforce-eager: expected true or false, got maybe"),
                       ("port: 99999999", "--port: expected an integer in [0, 65535], got 99999999"),
                       ("speculative-config: " + "{a: " * 60 + "1" + "}" * 60, "nested too deeply"),
                       ("config: other.yaml", "serve has no flag config")):
        code, _, said, _ = settings(binary, text)
        assert code == 1 and want in said and len(said.splitlines()) == 1, (text, said)
    assert "--config: /no/such/file: cannot be read" in run(binary, "serve", "--config", "/no/such/file").stderr
    refused(binary, "--config: /dev/zero: expected at most 1048576 bytes", "serve", "--config", "/dev/zero")
    done = run(binary, "serve", "--print-config", env={**os.environ, "QUIRE_ENFORCE_EAGER": "1"})
    assert done.returncode == 1 and "$QUIRE_ENFORCE_EAGER: enforce-eager: expected true or false" in done.stderr, done
