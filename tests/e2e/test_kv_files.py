"""KV that outlives the server, in files: restarts, damage, a full disk, servers that share a directory."""
import concurrent.futures
import glob
import json
import os
import signal
import tempfile
import threading
import time
import urllib.request

import harness
from command import fetch, refused
from process import Server

PLAIN = ("--hardware", "none", "--threads", "1", "--enable-prompt-tokens-details")
FLAGS = (*PLAIN, "--kv-offload-memory", "16MiB")
PROMPT = " ".join(f"The {i}th day brought rain, and the house by the sea was quiet." for i in range(12))


def ask(url, prompt=PROMPT, max_tokens=12, **fields):
    """Returns the parts of an answer that must always have the same bits, and the number of cached tokens."""
    body = {"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "temperature": 0, "logprobs": 3, **fields}
    request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        done = json.load(answer)
    choice = done["choices"][0]
    return (choice["text"], choice["logprobs"]), done["usage"]["prompt_tokens_details"]["cached_tokens"]


def metric(url, name):
    text = fetch(url, "/metrics")[2]
    values = [line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith(name + "{")]
    assert values, name
    return sum(float(value) for value in values)


def wait_for(url, name, least):
    """Waits for a condition. Only steps notice changes of files, so short requests cause some."""
    end = time.time() + 120
    ask(url, "x", 1)
    while metric(url, name) < least:
        ask(url, "x", 1)
        assert time.time() < end, (name, least, metric(url, name))
        time.sleep(0.02)


def serve(binary, folder, *flags):
    return Server(binary, *FLAGS, "--kv-cache-dir", folder, *flags)


def kv_files(folder):
    return sorted(glob.glob(os.path.join(folder, "*.kv")))


def test_a_restarted_server_has_the_same_answer_from_files(binary):
    with tempfile.TemporaryDirectory() as folder:
        with Server(binary, *PLAIN) as plain:
            expected, _ = ask(plain.url)
        with serve(binary, folder) as server:
            first, cached = ask(server.url)
            assert first == expected and cached == 0, (first, cached)
        assert kv_files(folder), os.listdir(folder)
        assert not glob.glob(os.path.join(folder, ".*")), os.listdir(folder)
        with serve(binary, folder) as server:
            wait_for(server.url, "quire:kv_files", 1)
            second, cached = ask(server.url)
            assert second == expected and cached > 100, (second, cached)
            assert metric(server.url, "vllm:external_prefix_cache_hits_total") >= cached - 16
            salted, cached = ask(server.url, cache_salt="another tenant")
            assert salted == expected and cached == 0, cached
            # Sends many requests at once, with one prompt that continues in the middle of a run of
            # blocks.
            answers = {}
            prompts = [PROMPT[:300 + 40 * i] for i in range(4)]
            threads = [threading.Thread(target=lambda p=p: answers.setdefault(p, ask(server.url, p)[0])) for p in prompts]
            [thread.start() for thread in threads]
            [thread.join() for thread in threads]
        with Server(binary, *PLAIN, "--no-enable-prefix-caching") as plain:
            for prompt in prompts:
                assert answers[prompt] == ask(plain.url, prompt)[0], prompt


def test_a_killed_server_leaves_whole_files(binary):
    with tempfile.TemporaryDirectory() as folder:
        server = serve(binary, folder)
        expected, _ = ask(server.url)
        wait_for(server.url, "quire:kv_file_blocks_stored_total", 1)
        stop = threading.Event()

        def keep_busy(seed):
            while not stop.is_set():
                try:
                    ask(server.url, f"{seed} {time.time()} " + PROMPT, 2)
                except OSError:
                    return
        threads = [threading.Thread(target=keep_busy, args=(i,)) for i in range(3)]
        [thread.start() for thread in threads]
        time.sleep(0.7)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait(10)
        stop.set()
        [thread.join() for thread in threads]
        with serve(binary, folder) as again:
            wait_for(again.url, "quire:kv_files", len(kv_files(folder)))
            answer, cached = ask(again.url)
            assert answer == expected and cached > 100, cached
            assert metric(again.url, "quire:kv_file_load_failures_total") == 0


def test_damaged_files_are_computed_again(binary):
    with tempfile.TemporaryDirectory() as folder:
        with serve(binary, folder) as server:
            expected, _ = ask(server.url)
        for path in kv_files(folder):
            with open(path, "r+b") as file:
                file.seek(-100, os.SEEK_END)
                byte = file.read(1)
                file.seek(-100, os.SEEK_END)
                file.write(bytes([byte[0] ^ 1]))
        with serve(binary, folder) as server:
            wait_for(server.url, "quire:kv_files", 1)
            answer, _ = ask(server.url)
            assert answer == expected
            assert metric(server.url, "quire:kv_file_load_failures_total") >= 1
            assert "damaged" in server.output(), server.output()


def test_kv_of_other_types_and_kernels_is_not_read(binary):
    with tempfile.TemporaryDirectory() as folder:
        with serve(binary, folder) as server:
            ask(server.url)
        written = len(kv_files(folder))
        for flags in (("--kv-cache-dtype", "float32"), ("--isa", "portable")):
            with Server(binary, *PLAIN, *flags) as plain:
                expected, _ = ask(plain.url)
            with serve(binary, folder, *flags) as server:
                wait_for(server.url, "quire:kv_files", written)
                assert metric(server.url, "quire:kv_file_blocks") == 0
                answer, cached = ask(server.url)
                assert answer == expected and cached == 0, flags
            written = len(kv_files(folder))


def test_kv_of_other_blocks_ranks_and_stages_is_read(binary):
    with tempfile.TemporaryDirectory() as folder:
        with serve(binary, folder) as server:
            expected, _ = ask(server.url)
        for flags in (("--block-size", "32"), ("-tp", "2"), ("-pp", "2", "--block-size", "8")):
            with serve(binary, folder, *flags) as server:
                wait_for(server.url, "quire:kv_files", 1)
                answer, cached = ask(server.url)
                assert answer == expected and cached > 100, (flags, cached)
                assert metric(server.url, "quire:kv_file_load_failures_total") == 0


def test_two_servers_share_a_directory(binary):
    with tempfile.TemporaryDirectory() as folder, serve(binary, folder) as a, serve(binary, folder) as b:
        expected, _ = ask(a.url)
        wait_for(a.url, "quire:kv_file_blocks_stored_total", 1)
        wait_for(b.url, "quire:kv_files", metric(a.url, "quire:kv_files"))
        answer, cached = ask(b.url)
        assert answer == expected and cached > 100, cached


def test_engines_of_one_server_share_files(binary):
    prompts = [f"{i}: {PROMPT}" for i in range(6)]
    with Server(binary, *PLAIN) as plain:
        want = [ask(plain.url, prompt)[0] for prompt in prompts]

    def ask_all(url):
        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
            answers = list(pool.map(lambda prompt: ask(url, prompt), prompts))
        assert [answer for answer, _ in answers] == want
        return sum(cached for _, cached in answers)

    def loaded(url):
        context = harness.Context(url, "none", 0)
        return [context.metric("quire:kv_file_blocks_loaded_total", engine=str(engine)) for engine in range(2)]

    with tempfile.TemporaryDirectory() as folder:
        with serve(binary, folder, "-dp", "2") as server:
            assert ask_all(server.url) == 0
        with serve(binary, folder, "-dp", "2", "--enable-dev-endpoints") as server:
            end = time.time() + 120
            while min(loaded(server.url)) == 0:  # each engine searches for files by itself
                ask_all(server.url)
                assert fetch(server.url, "/reset_prefix_cache", {})[0] == 200
                assert time.time() < end, loaded(server.url)
            assert metric(server.url, "quire:kv_file_load_failures_total") == 0
        with serve(binary, folder) as server:  # so does a server with one engine
            wait_for(server.url, "quire:kv_files", 1)
            assert ask_all(server.url) > 100


def test_files_keep_to_their_bytes(binary):
    with tempfile.TemporaryDirectory() as folder, serve(binary, folder, "--kv-cache-dir-bytes", "2MiB") as server:
        for i in range(12):
            ask(server.url, f"{i} {PROMPT}", 2)
        wait_for(server.url, "quire:kv_files_removed_total", 1)
        time.sleep(0.2)
        assert sum(map(os.path.getsize, kv_files(folder))) <= 2 << 20, list(map(os.path.getsize, kv_files(folder)))


def test_flags_of_files_are_checked(binary):
    refused(binary, "expected a directory", "generate", "-p", "x", "--kv-cache-dir", "/dev/null/x")
    refused(binary, "expected prefix caching", "generate", "-p", "x", "--kv-cache-dir", "/tmp/x",
            "--no-enable-prefix-caching")
    refused(binary, "expected none on a CPU without --kv-cache-dir", "generate", "-p", "x", "--kv-offload-memory", "1GiB")
