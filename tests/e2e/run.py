#!/usr/bin/env python3
"""End-to-end tests through the official openai client and plain sockets.

    build/clients/bin/python tests/e2e/run.py --binary build/release/quire     starts servers on the built-in model
    build/clients/bin/python tests/e2e/run.py --url http://127.0.0.1:8000      against a running server

$QUIRE_API_KEY is the running server's key, if it has one; --pid, its process, lets the load tests watch its memory.
With --binary the tests of whole processes and of the web page run too, two modules at a time (--jobs), because most of them
wait for processes rather than for a core; --sanitized: the binary carries a sanitizer, whose own memory hides the server's.
Exit code 0 when nothing failed; the last line counts.
"""
import argparse
import concurrent.futures
import os
import resource
import subprocess
import sys
import time
import traceback

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [FOLDER, os.path.join(FOLDER, "..", "soak")]

import harness  # noqa: E402
import test_adapters  # noqa: E402
import test_anthropic  # noqa: E402
import test_attacks  # noqa: E402
import test_batch  # noqa: E402
import test_batches  # noqa: E402
import test_client  # noqa: E402
import test_client_libraries  # noqa: E402
import test_dashboard  # noqa: E402
import test_embeddings  # noqa: E402
import test_figures  # noqa: E402
import test_fleet  # noqa: E402
import test_keys  # noqa: E402
import test_kubernetes  # noqa: E402
import test_kv_events  # noqa: E402
import test_kv_files  # noqa: E402
import test_llama  # noqa: E402
import test_launchers  # noqa: E402
import test_load  # noqa: E402
import test_memory_limits  # noqa: E402
import test_models_dir  # noqa: E402
import test_networks  # noqa: E402
import test_ollama  # noqa: E402
import test_operations  # noqa: E402
import test_pages  # noqa: E402
import test_planning  # noqa: E402
import test_prefill_decode  # noqa: E402
import test_process  # noqa: E402
import test_pull  # noqa: E402
import test_python  # noqa: E402
import test_python_client  # noqa: E402
import test_ranks  # noqa: E402
import test_responses  # noqa: E402
import test_route  # noqa: E402
import test_speculation  # noqa: E402
import test_seq2seq  # noqa: E402
import test_speech  # noqa: E402
import test_structured_output  # noqa: E402
import test_telemetry  # noqa: E402
import test_terminal  # noqa: E402
import test_tls  # noqa: E402
import test_tools  # noqa: E402
import test_verbs  # noqa: E402
import test_vision  # noqa: E402
import test_vllm_router  # noqa: E402
import test_vllm_surface  # noqa: E402
from process import Server  # noqa: E402


# Test modules that start servers of their own, so that some can run at the same time. The longest
# come first.
BESIDE = (test_verbs, test_networks, test_prefill_decode, test_tools, test_ranks, test_route, test_client_libraries, test_vision,
          test_telemetry, test_operations, test_fleet, test_speculation, test_vllm_router, test_vllm_surface, test_pull,
          test_planning, test_speech, test_kv_files, test_adapters, test_models_dir, test_pages, test_terminal, test_process,
          test_launchers, test_figures, test_python, test_seq2seq, test_kubernetes, test_batches, test_tls, test_keys,
          test_responses, test_kv_events, test_embeddings, test_anthropic, test_batch, test_ollama, test_dashboard, test_llama,
          test_python_client)


def run_functions(functions, argument, only):
    """Runs the named test functions; returns (passed, failed, skipped, failures as (test, what it said))."""
    passed = failed = skipped = 0
    failures = []
    for name, function in functions:
        if only not in name:
            continue
        start = time.time()
        try:
            function(argument)
            outcome, passed = "ok", passed + 1
        except harness.Skip as reason:
            outcome, skipped = f"SKIPPED: {reason}", skipped + 1
        except Exception as error:  # noqa: BLE001: a test may fail in any way
            outcome, failed = "FAILED\n" + traceback.format_exc(), failed + 1
            where = traceback.extract_tb(error.__traceback__)[-1]
            failures.append((name, f"{where.filename}:{where.lineno}: {error!r}"))
        print(f"{name}: {outcome} ({time.time() - start:.2f} s)", flush=True)
    return passed, failed, skipped, failures


def run_module(module, argument, only):
    functions = [(n, f) for n, f in sorted(vars(module).items()) if n.startswith("test_") and callable(f)]
    return run_functions(functions, argument, only)


def run_named_module(name, argument, only):
    return run_module(sys.modules[name], argument, only)


def run_beside(modules, argument, only, jobs):
    """Runs the modules in `jobs` processes. The functions of a module run one after the other."""
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        running = [pool.submit(run_named_module, module.__name__, argument, only) for module in modules]
        for ended in concurrent.futures.as_completed(running):
            yield ended.result()


def run_web_page(*arguments):
    """Tests the page in a real browser as one test: over the mock (faults included), or with --url over a server."""
    page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "web", "test_page.py")
    done = subprocess.run([sys.executable, page, *arguments], capture_output=True, text=True, timeout=600)
    print(done.stdout + done.stderr, flush=True)
    if done.returncode == 0 and "no Chromium here" in done.stderr:
        return 0, 0, 1, []
    return (1, 0, 0, []) if done.returncode == 0 else (0, 1, 0, [("web_page", done.stderr)])


def run_against(url, pid, only):
    context = harness.Context(url.rstrip("/"), os.environ.get("QUIRE_API_KEY", "none"), pid)
    context.wait_ready(60)
    yield run_module(test_client, context, only)
    yield run_module(test_structured_output, context, only)
    yield run_functions([("test_thousand_open_streams", test_load.test_thousand_open_streams),
                         ("test_doors_under_load", test_load.test_doors_under_load)], context, only)


def run_forced(binary, isa, only):
    """Runs the client tests with the kernels of an older instruction set."""
    print(f"with --isa {isa}:", flush=True)
    try:
        server = Server(binary, "--isa", isa)
    except RuntimeError as refusal:
        print(f"SKIPPED: {refusal}", flush=True)
        return 0, int(isa == "portable"), int(isa != "portable"), [(isa, str(refusal))] if isa == "portable" else []
    with server:
        context = harness.Context(server.url, "none", server.process.pid)
        context.wait_ready(60)
        return run_module(test_client, context, only)


def run_binary(binary, sanitized, only, jobs):
    with Server(binary) as server:
        yield from run_against(server.url, 0 if sanitized else server.process.pid, only)
        if only in "web_page":
            yield run_web_page("--url", server.url)
            yield run_web_page()
    with Server(binary, "--max-num-queued-reqs", "64") as server:  # a short queue, so that the requests overload it
        context = harness.Context(server.url, "none", 0 if sanitized else server.process.pid)
        context.wait_ready(60)
        yield run_functions([("test_overload (queue of 64)", test_load.test_overload)], context, only)
    if not sanitized:
        for isa in ("portable", "avx2"):
            yield run_forced(binary, isa, only)
        for module in (test_memory_limits, test_attacks):
            yield run_module(module, binary, only)
    yield from run_beside(BESIDE, binary, only, jobs)


def main():
    parser = argparse.ArgumentParser()
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--binary")
    target.add_argument("--url")
    parser.add_argument("--filter", default="", help="only tests whose name contains this")
    parser.add_argument("--pid", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="modules that run beside each other")
    parser.add_argument("--sanitized", action="store_true")
    args = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a thousand open streams
    runs = (run_binary(args.binary, args.sanitized, args.filter, args.jobs) if args.binary
            else run_against(args.url, args.pid, args.filter))
    *counts, failures = zip(*runs)
    passed, failed, skipped = (sum(count) for count in counts)
    for name, message in sum(failures, []):
        print(f"FAILED: {name}: {message[:2000]}")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
