"""What only a whole process shows: command-line errors, draining on SIGTERM, sockets, the verbs' output."""
import json
import os
import struct
import subprocess
import tempfile
import threading
import time
import urllib.request

from harness import Skip
from process import Server


def run(binary, *arguments, input_text=""):
    return subprocess.run([binary, *arguments], input=input_text, capture_output=True, text=True, timeout=120)


def stream(url, max_tokens):
    """Returns (text, finish_reason, saw [DONE]) of one streamed completion."""
    body = {"prompt": "Once upon a time", "max_tokens": max_tokens, "ignore_eos": True, "stream": True, "temperature": 0}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    text, finish, done = "", None, False
    with urllib.request.urlopen(request, timeout=120) as response:
        for line in response:
            line = line.decode().strip()
            if line == "data: [DONE]":
                done = True
            elif line.startswith("data: "):
                for choice in json.loads(line[6:])["choices"]:
                    text += choice["text"]
                    finish = choice["finish_reason"] or finish
    return text, finish, done


def test_terminate_under_load_loses_no_accepted_request(binary):
    with Server(binary, "--max-num-seqs", "8") as server:
        outcomes = []
        threads = [threading.Thread(target=lambda: outcomes.append(stream(server.url, 200))) for _ in range(24)]
        for thread in threads:
            thread.start()
        while json.load(urllib.request.urlopen(server.url + "/quire/stats"))["requests_total"] < len(threads):
            time.sleep(0.01)  # all are accepted; most of them still wait
        server.terminate()
        for thread in threads:
            thread.join()
        assert server.wait() == 0, server.output()
        assert len(outcomes) == len(threads)
        assert all(finish == "length" and done for _, finish, done in outcomes), outcomes
        assert len({text for text, _, _ in outcomes}) == 1  # the same request gave the same text


def test_the_machine_is_measured_after_serving_began_and_remembered(binary):
    def hardware(server):
        return json.load(urllib.request.urlopen(server.url + "/quire/steps"))["hardware"]

    def measured(server):
        end = time.time() + 60
        while hardware(server) is None and time.time() < end:
            time.sleep(0.05)
        return hardware(server)

    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "XDG_CACHE_HOME": cache}
        with Server(binary, environment=environment) as server:
            assert hardware(server) is None  # asked within the first second
            first = measured(server)
            assert first["bytes_per_s"] > 1e8, server.output()
        kept = os.path.join(cache, "quire")
        os.makedirs(kept, exist_ok=True)
        if not os.listdir(kept):
            raise Skip("other programs disturbed the measurement, so nothing was kept")
        with Server(binary, environment=environment) as server:
            assert hardware(server) == first
        with Server(binary, "--probe-again", environment=environment) as server:
            assert hardware(server) is None


def test_second_signal_stops_at_once(binary):
    with Server(binary, "--max-num-seqs", "1") as server:
        ends = []  # whether each answer came to its end
        threads = [threading.Thread(target=lambda: _ignore(lambda: ends.append(stream(server.url, 1500)[2]))) for _ in range(16)]
        for thread in threads:
            thread.start()
        time.sleep(0.3)
        server.terminate()
        time.sleep(0.2)
        server.terminate()
        assert server.wait(60) == 0
        for thread in threads:
            thread.join()
        assert sum(ends) < len(threads), "all requests were waited for, in spite of the second signal"


def _ignore(function, *arguments):
    try:
        function(*arguments)
    except (OSError, KeyError):  # refused, cut off, or ended by an error event
        pass


def write_model(folder, config=None, tensors=b"", **files):
    if config is not None:
        files["config.json"] = config if isinstance(config, (bytes, str)) else json.dumps(config)
    if tensors:
        files["model.safetensors"] = tensors
    for name, content in files.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())


LLAMA = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1,
         "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 100, "max_position_embeddings": 64,
         "rms_norm_eps": 1e-5, "tie_word_embeddings": True}


def bad_models():
    yield "empty folder", {}
    yield "config not JSON", {"config": "{"}
    yield "config not an object", {"config": "[]"}
    yield "unknown family", {"config": {**LLAMA, "model_type": "no_such_model"}}
    yield "no weights", {"config": LLAMA}
    yield "negative layers", {"config": {**LLAMA, "num_hidden_layers": -1}, "tensors": b"\0" * 16}
    yield "huge hidden size", {"config": {**LLAMA, "hidden_size": 2**40}, "tensors": b"\0" * 16}
    yield "heads do not divide", {"config": {**LLAMA, "num_key_value_heads": 3}, "tensors": b"\0" * 16}
    yield "wrong type", {"config": {**LLAMA, "hidden_size": "64"}, "tensors": b"\0" * 16}
    yield "short safetensors", {"config": LLAMA, "tensors": b"\x05"}
    yield "header longer than file", {"config": LLAMA, "tensors": struct.pack("<Q", 2**60) + b"{}"}
    header = json.dumps({"model.embed_tokens.weight": {"dtype": "F32", "shape": [100, 64], "data_offsets": [0, 25600]}})
    yield "data missing", {"config": LLAMA, "tensors": struct.pack("<Q", len(header)) + header.encode()}
    yield "tensors missing", {"config": LLAMA,
                              "tensors": struct.pack("<Q", len(header)) + header.encode() + b"\0" * 25600}


def test_bad_model_folders_give_one_clear_line(binary):
    for name, files in bad_models():
        with tempfile.TemporaryDirectory() as folder:
            write_model(folder, **files)
            done = run(binary, "generate", folder, "-p", "x")
            assert done.returncode == 1, (name, done)
            lines = done.stderr.strip().splitlines()
            assert len(lines) == 1 and lines[0].startswith("quire: "), (name, done.stderr)


def test_bad_gguf_files_give_one_clear_line(binary):
    cases = {"empty": b"", "magic": b"GGML" + b"\0" * 64, "version 4": b"GGUF" + struct.pack("<IQQ", 4, 0, 0),
             "huge counts": b"GGUF" + struct.pack("<IQQ", 3, 2**62, 2**62), "cut": b"GGUF" + struct.pack("<I", 3)}
    for name, content in cases.items():
        with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
            file.write(content)
            file.flush()
            done = run(binary, "inspect", file.name)
            assert done.returncode == 1, (name, done)
            lines = done.stderr.strip().splitlines()
            assert len(lines) == 1 and lines[0].startswith("quire: "), (name, done.stderr)


def test_bad_flags_give_one_clear_line(binary):
    cases = [(["nope"], "nope"), (["bench", "nope"], "nope"), (["serve", "--nope"], "--nope"),
             (["serve", "--max-num-seqs", "0"], "expected an integer >= 1, got 0"),
             (["serve", "--shutdown-timeout", "-1"], "expected an integer >= 0, got -1"),
             (["serve", "--max-logprobs", "-5"], "expected an integer >= -1, got -5"),
             (["serve", "--scheduling-policy", "best"], "fcfs, priority or sjf, got best"),
             (["serve", "--kv-cache-memory", "99TiB", "--port", "0"], "memory are free"),
             (["serve", "--num-gpu-blocks-override", "1073741824", "--port", "0"], "memory are free"),
             (["generate", "-p", "x", "--repetition-penalty", "0"], "expected a number > 0, got 0"),
             (["generate", "--prompt-file", "/tmp"], "/tmp: cannot be read"),
             (["serve", "--host", ""], "--host: expected"),
             (["serve", "--default-chat-template-kwargs", '{"messages": 1}'], "'messages' is a field of the request"),
             (["serve", "--request-timeout-ms", "9223372036854775807"], "--request-timeout-ms: expected"),
             (["tokenize", "--decode", "999999"], "got '999999'")]
    for arguments, said in cases:
        done = run(binary, *arguments)
        assert done.returncode == 1, (arguments, done)
        lines = done.stderr.strip().splitlines()
        assert len(lines) == 1 and lines[0].startswith("quire: ") and said in lines[0], (arguments, done.stderr)


def test_missing_model_and_bad_flags(binary):
    missing = run(binary, "serve", "/no/such/model")
    assert missing.returncode == 1 and "/no/such/model" in missing.stderr
    assert run(binary, "serve", "--no-such-flag").returncode == 1
    assert run(binary, "serve", "--dtype", "int3").returncode == 1
    assert run(binary, "generate").returncode == 1


def test_output_that_cannot_be_written_is_an_error(binary):
    for arguments in (["generate", "-p", "x", "--max-tokens", "2"], ["--help"],
                      ["roofline", "--hardware", "h100-sxm", "--context", "1024"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run([binary, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
        lines = done.stderr.strip().splitlines()
        assert done.returncode == 1 and len(lines) == 1 and lines[0].startswith("quire: "), (arguments, done)


def test_verbs_on_the_builtin_model(binary):
    generated = run(binary, "generate", "-p", "Once upon a time", "--max-tokens", "20", "--temperature", "0")
    assert generated.returncode == 0 and len(generated.stdout) > len("Once upon a time\n"), generated
    several = run(binary, "generate", "-p", "Once", "-p", "One day", "-n", "2", "--max-tokens", "5", "--seed", "1")
    assert several.returncode == 0 and several.stdout.count("--- prompt") == 4, several
    chatted = run(binary, "chat", "--temperature", "0", input_text="What is 2 + 3?\n/exit\n")
    assert chatted.returncode == 0 and "5" in chatted.stdout, chatted
    tokens = run(binary, "tokenize", "--ids", "-p", "hello world", "--no-add-special-tokens")
    ids = ",".join(tokens.stdout.split())
    assert run(binary, "tokenize", "--decode", ids).stdout == "hello world\n", tokens
    inspected = run(binary, "inspect")
    assert inspected.returncode == 0 and "llama" in inspected.stdout and "memory plan" in inspected.stdout, inspected
    version = run(binary, "--version").stdout
    assert version.startswith("quire ")
    for word in ("commit ", "compiled by ", "CPU kernels that run here: portable", "CUDA kernels: "):
        assert word in version, version
    for verb in ("serve", "chat", "generate", "tokenize", "inspect", "bench"):
        assert run(binary, verb, "--help").returncode == 0


def test_forced_instruction_sets_agree_on_greedy_text(binary):
    texts = {}
    for isa in ("portable", "avx2", "avx512"):
        done = run(binary, "generate", "--isa", isa, "--dtype", "float32", "-p", "Once upon a time", "--max-tokens", "32",
                   "--temperature", "0")
        if done.returncode == 0:
            texts[isa] = done.stdout
        else:
            assert isa != "portable" and isa in done.stderr, done
    assert len(set(texts.values())) == 1, texts
