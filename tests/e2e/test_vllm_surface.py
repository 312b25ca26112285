#!/usr/bin/env python3
"""What vLLM's own entrypoint tests check of a server, checked over plain HTTP on the built-in model.

    tests/e2e/test_vllm_surface.py --binary build/release/quire

Prints a line for each case and counts: passed, failed, and expected-unsupported (features that are not built, which have to
answer 501). Cases are functions of this file named after the file of vLLM's tests/entrypoints/openai that has the check.
"""
import argparse
import json
import os
import re
import sys
import tempfile
import threading
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from command import MODEL, ROOT, read, run  # noqa: E402
from harness import Context  # noqa: E402
from process import Server  # noqa: E402

IDS = [5, 5, 5, 5, 5]
HELLO = [{"role": "user", "content": "Hello"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


class Surface(Context):
    def __init__(self, server, key="none"):
        super().__init__(server.url, key, server.process.pid)
        self.server = server

    def complete(self, **fields):
        return self.post("/v1/completions", {"prompt": IDS, "max_tokens": 5, "temperature": 0, **fields})

    def chat(self, **fields):
        return self.post("/v1/chat/completions", {"messages": HELLO, "max_tokens": 5, "temperature": 0, **fields})

    def status(self, path, body=None, method="POST"):
        return self.request(method, path, body)[0]

    def events(self, path, **fields):
        status, _, text = self.request("POST", path, {"max_tokens": 5, "temperature": 0, "stream": True, **fields})
        assert status == 200, text
        lines = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
        assert lines[-1] == "[DONE]", lines
        return [json.loads(line) for line in lines[:-1]]

    def refuses(self, path, code, **fields):
        body = {"max_tokens": 5, **({"prompt": IDS} if path == "/v1/completions" else {"messages": HELLO}), **fields}
        status, _, text = self.request("POST", path, body)
        assert status == code, (fields, status, text)
        return json.loads(text)["error"]


C, H = "/v1/completions", "/v1/chat/completions"
# Each case is (name, flags of the server, function).
CASES, UNSUPPORTED = [], []


def case(*flags):
    def add(function):
        CASES.append((function.__name__, flags, function))
        return function
    return add


# basic/test_basic.py
@case()
def basic_version_health_and_models(s):
    assert set(s.get("/version")) == {"version"}
    assert s.status("/health", method="GET") == 200
    assert s.get("/v1/models")["object"] == "list"


@case("--disable-frontend-multiprocessing")
def basic_starts_without_frontend_processes(s):
    assert s.status("/health", method="GET") == 200


def wait_for_load(s, load, seconds=10):
    end = time.time() + seconds
    while (now := s.get("/load")["server_load"]) != load:
        assert time.time() < end, f"the load stays at {now}; expected {load}"


@case("--enable-server-load-tracking")
def basic_load_counts_what_runs(s):
    assert s.get("/load") == {"server_load": 0}
    body = {"prompt": "Once", "max_tokens": 1500, "ignore_eos": True}
    long = threading.Thread(target=lambda: s.post(C, body))
    long.start()
    wait_for_load(s, 1)
    long.join()
    wait_for_load(s, 0)  # a client may have its answer slightly before the server counts it


@case()
def basic_wrong_content_type_is_refused(s):
    import urllib.error
    import urllib.request
    request = urllib.request.Request(s.url + H, json.dumps({"messages": HELLO}).encode(),
                                     {"Content-Type": "application/x-www-form-urlencoded"}, method="POST")
    try:
        urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        assert 400 <= error.code < 500
    else:
        raise AssertionError("accepted")


# basic/test_chat_logit_bias_validation.py, chat_completion/test_chat_stop_token_ids_validation.py
@case()
def logit_bias_takes_ids_of_the_whole_vocabulary(s):
    size = json.loads(read(os.path.join(MODEL, "config.json")))["vocab_size"]
    assert s.chat(logit_bias={str(size - 1): 1.0})["choices"]
    assert s.refuses(H, 400, logit_bias={str(size): 1.0})["param"] == "logit_bias"


@case()
def stop_token_ids_are_checked(s):
    assert s.chat(stop_token_ids=[1])["choices"]
    s.refuses(H, 400, stop_token_ids=[10**7])
    s.refuses(H, 400, stop_token_ids=["a"])


# basic/test_chat_echo.py, basic/test_return_token_ids.py
@case()
def chat_echo_repeats_the_last_message(s):
    messages = [*HELLO, {"role": "assistant", "content": "Once upon"}]
    fields = {"messages": messages, "echo": True, "continue_final_message": True, "add_generation_prompt": False}
    text = s.chat(**fields)["choices"][0]["message"]["content"]
    assert text.startswith("Once upon"), text
    assert not s.chat(**{**fields, "echo": False})["choices"][0]["message"]["content"].startswith("Once upon")


@case()
def token_ids_of_prompt_and_answer(s):
    choice = s.complete(return_token_ids=True)["choices"][0]
    assert choice["prompt_token_ids"] == IDS and len(choice["token_ids"]) == 5
    events = s.events(C, prompt=IDS, return_token_ids=True)
    assert events[0]["choices"][0]["prompt_token_ids"] == IDS
    assert sum((e["choices"][0]["token_ids"] or [] for e in events), []) == choice["token_ids"]
    assert s.complete()["choices"][0]["token_ids"] is None


# completion/test_completion.py
@case("--enable-prompt-tokens-details", "--no-enable-prefix-caching", "--dtype", "float32", "--enforce-eager")
def completion_usage(s):
    answer = s.complete(prompt="Hello, my name is")
    usage = answer["usage"]
    assert usage["completion_tokens"] == 5 and usage["total_tokens"] == usage["prompt_tokens"] + 5
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0
    assert answer["choices"][0]["finish_reason"] == "length" and answer["choices"][0]["prompt_logprobs"] is None


@case()
def completion_truncation_sides(s):
    for side, kept in (("right", [0, 1, 2, 3]), ("left", [4, 5, 6, 7])):
        answer = s.complete(prompt=list(range(8)), max_tokens=1, return_token_ids=True, truncate_prompt_tokens=4,
                            truncation_side=side)
        assert answer["choices"][0]["prompt_token_ids"] == kept


@case()
def completion_logprobs(s):
    assert s.complete()["choices"][0]["logprobs"] is None
    for n in (0, 1, 5, 20):
        logprobs = s.complete(logprobs=n)["choices"][0]["logprobs"]
        assert len(logprobs["token_logprobs"]) == 5
        assert max(1, n) <= len(logprobs["top_logprobs"][0]) <= n + 1, (n, logprobs["top_logprobs"][0])
    s.refuses(C, 400, logprobs=21)
    s.refuses(C, 400, logprobs=30, stream=True)
    assert s.complete()["choices"]


@case()
def completion_prompt_logprobs(s):
    prompts = ["A robot may not injure another robot", "My name is"]
    s.refuses(C, 400, prompt=prompts, prompt_logprobs=-1)
    for n in (0, 1):
        choices = s.complete(prompt=prompts, prompt_logprobs=n)["choices"]
        assert all(len(c["prompt_logprobs"]) > 1 and c["prompt_logprobs"][0] is None for c in choices)
    assert s.complete(prompt=prompts)["choices"][0]["prompt_logprobs"] is None
    s.refuses(C, 400, prompt_logprobs=1, stream=True)


@case()
def completion_stream_is_the_answer(s):
    whole = s.complete(prompt="What is an LLM?")["choices"][0]
    events = s.events(C, prompt="What is an LLM?")
    assert "".join(e["choices"][0]["text"] for e in events) == whole["text"]
    assert [e["choices"][0]["finish_reason"] for e in events].count("length") == 1


@case()
def completion_parallel_choices(s):
    fields = {"prompt": "Once upon a time", "n": 3, "temperature": 1.0, "seed": 42, "max_tokens": 50, "logprobs": 0}
    choices = s.complete(**fields)["choices"]
    assert [c["index"] for c in choices] == [0, 1, 2] and len({c["text"] for c in choices}) == 3
    streamed = ["", "", ""]
    for event in s.events(C, **fields):
        streamed[event["choices"][0]["index"]] += event["choices"][0]["text"]
    assert streamed == [c["text"] for c in choices]


@case()
def completion_stream_options(s):
    for path, prompt in ((C, {"prompt": IDS}), (H, {"messages": HELLO})):
        for usage in (False, True):
            for continuous in (False, True):
                options = {"include_usage": usage, "continuous_usage_stats": continuous}
                events = s.events(path, stream_options=options, **prompt)
                with_usage = [e for e in events if e.get("usage")]
                assert len(with_usage) == (len(events) if usage and continuous else int(usage)), (options, events)
                assert not usage or events[-1]["choices"] == []
        body = {"stream": False, "stream_options": {"include_usage": None}, "max_tokens": 5, **prompt}
        assert s.status(path, body) == 400


@case()
def completion_batches_and_echo(s):
    choices = s.complete(prompt=["Hello", "Hello"], n=1)["choices"]
    assert len(choices) == 2 and choices[0]["text"] == choices[1]["text"]
    echoed = s.complete(prompt="Once upon", echo=True, logprobs=1)["choices"][0]
    assert echoed["text"].startswith("Once upon") and echoed["logprobs"]["token_logprobs"][0] is None
    only = s.complete(prompt="Once upon", echo=True, max_tokens=0)
    assert only["choices"][0]["text"] == "Once upon"


@case()
def completion_allowed_token_ids(s):
    allowed = [20, 21]
    assert set(s.complete(allowed_token_ids=allowed, return_token_ids=True)["choices"][0]["token_ids"]) <= set(allowed)
    s.refuses(C, 400, allowed_token_ids=[10**7])
    s.refuses(C, 400, allowed_token_ids=[])


# completion/test_prompt_validation.py, test_empty_prompt_list.py, test_completion_error.py
@case()
def prompts_are_checked(s):
    for prompt in ([], [[]], None, [10**7], [-1], {"a": 1}, 5):
        assert s.status(C, {"prompt": prompt, "max_tokens": 1}) == 400, prompt
    assert s.status(C, [1, 2]) == 400 and s.status(H, "text") == 400  # test_non_object_body_validation.py
    size = json.loads(read(os.path.join(MODEL, "config.json")))["vocab_size"]
    assert s.complete(prompt=[size - 1])["choices"]
    s.refuses(C, 404, model="no-such-model")


@case()
def sampling_bounds(s):
    for fields in ({"temperature": -1}, {"top_p": 0}, {"top_k": -2}, {"min_p": 2}, {"n": 0}, {"frequency_penalty": 3},
                   {"presence_penalty": -3}, {"repetition_penalty": 0}, {"max_tokens": -1}, {"min_tokens": 9},
                   {"bad_words": [""]}, {"stop": [""]}, {"logprobs": -2}, {"cache_salt": ""}):
        s.refuses(C, 400, **fields)


# completion/test_completion_text_offset.py, test_completion_logprobs.py
@case("--max-logprobs", "-1")
def all_logprobs_where_they_are_allowed(s):
    size = json.loads(read(os.path.join(MODEL, "config.json")))["vocab_size"]
    top = s.chat(logprobs=True, top_logprobs=-1, max_tokens=1)["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
    assert len(top) == size
    assert s.complete(prompt=IDS, logprobs=-1, max_tokens=1)["choices"][0]["logprobs"]
    assert len(s.complete(prompt=IDS, prompt_logprobs=-1, max_tokens=1)["choices"][0]["prompt_logprobs"][1]) == size


@case("--max-logprobs", "2000000")
def all_logprobs_below_a_large_limit(s):
    assert s.complete(logprobs=-1, max_tokens=1)["choices"][0]["logprobs"]["top_logprobs"][0]


@case()
def text_offsets(s):
    logprobs = s.complete(prompt="Once", logprobs=0, max_tokens=8)["choices"][0]["logprobs"]
    lengths = [len(token) for token in logprobs["tokens"]]
    assert logprobs["text_offset"] == [sum(lengths[:i]) for i in range(len(lengths))]


# completion/test_token_in_token_out.py, --return-tokens-as-token-ids
@case("--return-tokens-as-token-ids")
def tokens_as_ids_by_flag(s):
    choice = s.complete(logprobs=1, return_token_ids=True)["choices"][0]
    assert choice["logprobs"]["tokens"] == [f"token_id:{i}" for i in choice["token_ids"]]
    plain = s.complete(logprobs=1, return_tokens_as_token_ids=False)["choices"][0]
    assert not plain["logprobs"]["tokens"][0].startswith("token_id:")


@case()
def tokens_as_ids_by_field(s):
    content = s.chat(logprobs=True, top_logprobs=2, return_tokens_as_token_ids=True)["choices"][0]["logprobs"]["content"]
    assert all(t["token"].startswith("token_id:") for c in content for t in [c, *c["top_logprobs"]])


# chat_completion/test_chat.py
@case()
def chat_logprobs(s):
    assert s.chat(logprobs=False)["choices"][0]["logprobs"] is None
    for top in (0, 5):
        content = s.chat(logprobs=True, top_logprobs=top)["choices"][0]["logprobs"]["content"]
        assert len(content) == 5 and all(len(c["top_logprobs"]) == top for c in content)
    s.refuses(H, 400, logprobs=True, top_logprobs=21)
    s.refuses(H, 400, top_logprobs=3)
    s.refuses(H, 400, logprobs=True, top_logprobs=-1)


@case()
def chat_no_top_logprobs_needs_no_logprobs(s):
    assert s.chat(top_logprobs=0)["choices"][0]["logprobs"] is None
    assert s.chat(top_logprobs=0, logprobs=False)["choices"][0]["logprobs"] is None


@case()
def chat_stream_is_the_answer(s):
    whole = s.chat()["choices"][0]
    events = s.events(H, messages=HELLO)
    assert events[0]["choices"][0]["delta"]["role"] == "assistant"
    assert "".join(e["choices"][0]["delta"].get("content") or "" for e in events) == whole["message"]["content"]


@case()
def chat_parts_max_tokens_and_names(s):
    parts = [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}]
    assert s.chat(messages=parts)["choices"] and s.chat(max_completion_tokens=2)["usage"]["completion_tokens"] == 2
    assert s.chat(response_format={"type": "text"})["choices"]
    s.refuses(H, 400, messages=[])
    s.refuses(H, 400, tools=[], tool_choice="auto")
    s.refuses(H, 400, tool_choice="auto")
    assert s.chat(tool_choice=None)["choices"]  # test_tool_choice_null.py


@case("--chat-template", "{% for m in messages %}{{ m.content }}{% endfor %}")
def chat_tools_say_when_calls_cannot_be_read(s):
    status, headers, _ = s.request("POST", H, {"messages": HELLO, "max_tokens": 5, "tools": [TOOL]})
    assert status == 200 and "tool" in headers["X-Quire-Warning"], dict(headers)
    assert s.request("POST", H, {"messages": HELLO, "max_tokens": 5, "tools": [TOOL], "tool_choice": "none"})[0] == 200


@case("--tool-call-parser", "hermes")
def chat_tools_without_a_flag(s):
    status, headers, _ = s.request("POST", H, {"messages": HELLO, "max_tokens": 5, "tools": [TOOL]})
    assert status == 200 and headers["X-Quire-Warning"] is None, dict(headers)


# chat_completion/test_logprob_token_ids.py and its validation
@case("--max-logprobs", "-1")
def logprob_token_ids(s):
    wanted = [100, 7, 55]
    fields = {"logprob_token_ids": wanted, "return_tokens_as_token_ids": True}
    entry = s.chat(logprobs=True, top_logprobs=3, **fields)["choices"][0]["logprobs"]["content"][0]
    assert sorted(int(t["token"][9:]) for t in entry["top_logprobs"]) == sorted(wanted), entry
    every = s.chat(logprobs=True, top_logprobs=-1, return_tokens_as_token_ids=True)
    all_of_them = {t["token"]: t["logprob"] for t in every["choices"][0]["logprobs"]["content"][0]["top_logprobs"]}
    assert all(all_of_them[t["token"]] == t["logprob"] for t in entry["top_logprobs"])
    top = s.complete(logprobs=1, **fields)["choices"][0]["logprobs"]["top_logprobs"][0]
    assert {f"token_id:{i}" for i in wanted} <= set(top)
    s.refuses(H, 400, **fields)
    s.refuses(H, 400, logprobs=True, logprob_token_ids=[10**7])
    s.refuses(H, 400, logprobs=True, logprob_token_ids=list(range(129)))
    s.refuses(H, 400, logprobs=True, logprob_token_ids=["a"])


# chat_completion/test_enable_force_include_usage.py, test_usage_policy.py
@case("--enable-force-include-usage")
def usage_in_every_stream(s):
    for path, prompt in ((C, {"prompt": IDS}), (H, {"messages": HELLO})):
        events = s.events(path, **prompt)
        assert all(e["usage"] for e in events) and events[-1]["choices"] == []


@case("--reasoning-parser", "deepseek_r1")
def usage_counts_reasoning(s):
    answer = s.chat(max_tokens=8, ignore_eos=True)
    assert answer["usage"]["completion_tokens_details"]["reasoning_tokens"] == 8, answer
    assert answer["choices"][0]["message"]["content"] in (None, "") and answer["choices"][0]["message"]["reasoning"]
    streamed = s.events(H, messages=HELLO, max_tokens=8, ignore_eos=True, stream_options={"include_usage": True})
    assert streamed[-1]["usage"]["completion_tokens_details"]["reasoning_tokens"] == 8


# chat_completion/test_root_path.py
@case("--root-path", "/v2/quire", "--api-key", "sk-test")
def root_path_answers_with_it_and_without(s):
    s.key = "sk-test"
    for root in ("", "/v2/quire"):
        assert s.status(f"{root}/v1/models", method="GET") == 200, root
        assert s.status(f"{root}{C}", {"prompt": IDS, "max_tokens": 1}) == 200, root
        assert s.status(f"{root}/v1/models/quire-nothing", method="GET") == 404
    assert s.status("/v2/quirk/v1/models", method="GET") == 404
    s.key = "wrong"
    for root in ("", "/v2/quire"):
        assert s.status(f"{root}/v1/models", method="GET") == 401, root
        assert s.status(f"{root}/health", method="GET") == 200, root


# serve/instrumentator: test_metrics.py, test_orca_metrics.py
@case("--max-num-queued-reqs", "2")
def metrics_of_admission_and_preemption(s):
    assert s.status(C, {"prompt": IDS, "n": 2, "max_tokens": 2}) == 200
    answers = []
    body = {"prompt": "Once", "max_tokens": 300, "ignore_eos": True, "n": 2}
    threads = [threading.Thread(target=lambda: answers.append(s.status(C, body))) for _ in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert s.metric("vllm:admission_rejections_total", reason="max_num_queued_reqs") == answers.count(429)
    assert s.metric("vllm:admission_rejections_total", reason="max_num_queued_tokens") == 0
    text = s.request("GET", "/metrics")[2]
    assert 'vllm:request_num_preemptions_bucket{model_name=' in text
    info = re.search(r"vllm:cache_config_info\{(.*)\}", text).group(1)
    assert 'kv_cache_size_tokens="' in info and 'kv_cache_max_concurrency="' in info, info


@case()
def load_report_header(s):
    import urllib.request
    for form, begins in (("TEXT", "TEXT named_metrics.kv_cache_usage_perc="), ("json", 'JSON {"named_metrics"')):
        request = urllib.request.Request(s.url + C, json.dumps({"prompt": IDS, "max_tokens": 1}).encode(),
                                         {**s.headers(), "endpoint-load-metrics-format": form}, method="POST")
        with urllib.request.urlopen(request) as answer:
            assert answer.headers["endpoint-load-metrics"].startswith(begins), dict(answer.headers)
    assert s.request("POST", C, {"prompt": IDS, "max_tokens": 1})[1]["endpoint-load-metrics"] is None


# serve/tokenize: test_tokenization.py
@case("--enable-tokenizer-info-endpoint")
def tokenizer_info(s):
    info = s.get("/tokenizer_info")
    assert info == json.loads(read(os.path.join(MODEL, "tokenizer_config.json")))


@case()
def tokenize_and_back(s):
    tokens = s.post("/tokenize", {"prompt": "Once upon a time"})
    assert tokens["count"] == len(tokens["tokens"]) and tokens["max_model_len"] > 0
    text = s.post("/detokenize", {"tokens": tokens["tokens"]})["prompt"]
    assert text.endswith("Once upon a time")
    assert s.status("/tokenizer_info", method="GET") == 404


# serve/dev: test_sleep.py, test_rlhf.py, test_cache.py, test_server_info.py
@case()
def dev_routes_are_shut(s):
    for path in ("/pause", "/resume", "/sleep", "/wake_up", "/reset_prefix_cache", "/abort_requests", "/start_profile", "/stop_profile"):
        assert s.status(path, {}) == 404, path
    assert s.status("/server_info", method="GET") == 404


@case("--enable-dev-endpoints")
def dev_profile_is_a_chrome_trace(s):
    assert s.status("/stop_profile") == 400
    s.complete(max_tokens=4)  # before it begins
    assert s.status("/start_profile") == 200
    s.complete(max_tokens=8, ignore_eos=True)
    trace = s.post("/stop_profile", None)
    steps = [e for e in trace["traceEvents"] if e["name"] == "step"]
    assert 1 <= len(steps) <= 9 and sum(e["args"]["tokens"] for e in steps) >= 8, steps
    parts = [e for e in trace["traceEvents"] if e["name"] in ("schedule", "execute", "update")]
    assert len(parts) == 3 * len(steps) and all(e["ph"] == "X" and e["dur"] >= 0 for e in parts)
    assert s.status("/stop_profile") == 400
    assert s.status("/start_profile") == 200
    s.complete(max_tokens=8, ignore_eos=True)
    assert s.status("/stop_profile?num_steps=0") == 400
    assert s.status("/start_profile") == 200
    s.complete(max_tokens=8, ignore_eos=True)
    trace = s.post("/stop_profile?num_steps=1", None)
    assert sum(e["name"] == "step" for e in trace["traceEvents"]) == 1


@case("--enable-dev-endpoints")
def dev_sleep_and_wake(s):
    assert s.get("/is_sleeping") == {"is_sleeping": False}
    for level in (1, 2):
        s.complete(prompt=IDS * 10)
        assert s.get("/quire/stats")["kv_blocks_cached"] > 0
        assert s.status(f"/sleep?level={level}") == 200
        assert s.get("/is_sleeping") == {"is_sleeping": True}
        state = "weights_offloaded" if level == 1 else "discard_all"
        assert s.metric("vllm:engine_sleep_state", sleep_state=state) == 1
        assert s.get("/quire/stats")["kv_blocks_cached"] == 0
        assert s.status("/wake_up?tags=weights") == 200 and s.get("/is_sleeping")["is_sleeping"]
        assert s.status("/wake_up?tags=kv_cache") == 200
        assert s.get("/is_sleeping") == {"is_sleeping": False}
        assert s.metric("vllm:engine_sleep_state", sleep_state="awake") == 1
        assert s.complete()["choices"]
    assert s.status("/sleep?level=3") == 400 and s.status("/sleep?level=x") == 400
    assert s.status("/sleep", method="GET") == 405


@case("--enable-dev-endpoints")
def dev_pause_keeps_waits_and_aborts(s):
    expected = s.complete(prompt="Once", max_tokens=400, ignore_eos=True)["choices"][0]
    for mode in ("keep", "wait", "abort"):
        answers = []
        body = {"prompt": "Once", "max_tokens": 400, "temperature": 0, "ignore_eos": True}
        running = threading.Thread(target=lambda: answers.append(s.post(C, body)))
        running.start()
        while s.get("/load")["server_load"] == 0:
            time.sleep(0.005)
        assert s.post(f"/pause?mode={mode}", None) == {"status": "paused"}
        assert s.get("/is_paused") == {"is_paused": True}
        late = threading.Thread(target=lambda: answers.append(s.post(C, body)))
        late.start()
        before = s.metric("vllm:generation_tokens_total")
        time.sleep(0.3)
        assert s.metric("vllm:generation_tokens_total") == before
        assert s.post("/resume", None) == {"status": "resumed"}
        running.join()
        late.join()
        choices = [a["choices"][0] for a in answers]
        if mode == "abort" and len(choices[0]["text"]) < len(expected["text"]):
            assert choices[0]["finish_reason"] == "abort", choices
            choices = choices[1:]
        assert all(c["text"] == expected["text"] for c in choices), (mode, choices)
    assert s.status("/pause?mode=never") == 400


@case("--enable-dev-endpoints")
def dev_abort_and_reset(s):
    answers = []
    body = {"prompt": "Once", "max_tokens": 1500, "ignore_eos": True, "request_id": "mine"}
    running = threading.Thread(target=lambda: answers.append(s.post(C, body)))
    running.start()
    while s.get("/quire/stats")["running"] == 0:
        time.sleep(0.005)
    assert s.post("/abort_requests", {"request_ids": ["another"]}) == {"status": "aborted", "aborted": 0}
    assert s.post("/abort_requests", {"request_ids": ["mine"]}) == {"status": "aborted", "aborted": 1}
    running.join()
    assert answers[0]["choices"][0]["finish_reason"] == "abort"
    assert s.post("/abort_requests", {}) == {"status": "aborted", "aborted": 0}
    assert s.status("/abort_requests", {"request_ids": "mine"}) == 400
    s.complete(prompt="Once upon a time there was a little girl who lived in a house by the sea")
    assert s.get("/quire/stats")["kv_blocks_cached"] > 0
    assert s.status("/reset_prefix_cache") == 200
    assert s.get("/quire/stats")["kv_blocks_cached"] == 0


@case("--enable-dev-endpoints")
def dev_server_info(s):
    assert isinstance(s.get("/server_info")["vllm_config"], str)
    assert s.get("/server_info?config_format=json")["vllm_config"]["max_num_seqs"] == 128
    assert s.status("/server_info?config_format=xml", method="GET") == 400


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}}, "required": ["a"],
          "additionalProperties": False}


def is_an_integer(text):
    assert isinstance(json.loads(text)["a"], int), text


@case()
def structured_outputs(s):
    is_an_integer(s.complete(prompt="A number:", max_tokens=200, structured_outputs={"json": SCHEMA})["choices"][0]["text"])


@case()
def response_formats(s):
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}
    for kind in (schema, {"type": "json_object"}):
        answer = s.post(H, {"messages": [{"role": "user", "content": "A number?"}], "max_tokens": 200, "response_format": kind})
        text = answer["choices"][0]["message"]["content"]
        assert text.startswith("{"), answer
        if kind is schema:
            is_an_integer(text)


@case()
def beam_search(s):
    asked = {"prompt": "Once upon a time", "n": 3, "max_tokens": 8, "use_beam_search": True, "logprobs": 1}
    answer = s.post(C, asked)
    texts = [choice["text"] for choice in answer["choices"]]
    assert len(set(texts)) == 3, answer
    means = [sum(choice["logprobs"]["token_logprobs"]) for choice in answer["choices"]]
    assert means == sorted(means, reverse=True), means
    assert answer["usage"]["completion_tokens"] == sum(len(c["logprobs"]["tokens"]) for c in answer["choices"])
    assert s.post(C, asked)["choices"] == answer["choices"]
    greedy = s.post(C, {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0})
    one = s.post(C, {"prompt": "Once upon a time", "max_tokens": 8, "use_beam_search": True, "ignore_eos": True})
    assert one["choices"][0]["text"] == greedy["choices"][0]["text"], (one, greedy)
    chat = s.post(H, {"messages": [{"role": "user", "content": "Hello"}], "n": 2, "max_tokens": 6,
                      "use_beam_search": True, "early_stopping": "never", "length_penalty": 0})
    assert len(chat["choices"]) == 2, chat


@case()
def best_of(s):
    asked = {"prompt": "Once upon a time", "max_tokens": 8, "seed": 5, "logprobs": 0}
    all_four = s.post(C, {**asked, "n": 4})
    best = s.post(C, {**asked, "n": 2, "best_of": 4})
    mean = lambda choice: sum(choice["logprobs"]["token_logprobs"]) / len(choice["logprobs"]["tokens"])
    ranked = sorted(all_four["choices"], key=mean, reverse=True)
    assert [c["text"] for c in best["choices"]] == [c["text"] for c in ranked[:2]], (best, ranked)
    assert best["usage"]["completion_tokens"] == all_four["usage"]["completion_tokens"], best


@case()
def greedy_choices_are_copies(s):
    answer = s.post(C, {"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0, "n": 3})
    assert len({choice["text"] for choice in answer["choices"]}) == 1, answer
    assert answer["usage"]["completion_tokens"] == 24, answer


def unsupported(name, path, **fields):
    UNSUPPORTED.append((name, path, fields))


for named, route, asked in (
        ("prompt_embeds", C, {"prompt_embeds": "AAAA"}),
        ("suffix", C, {"suffix": "end"})):
    unsupported(named, route, **asked)


# These cases test the command line. A model path that does not exist ends the start after the flags
# were read.

NO_MODEL = "/no/such/model"


def flag_error(binary, *flags, **kwargs):
    """Returns the error of the start about the flags; empty if the program came to reading the model."""
    model = () if "--model" in flags else (NO_MODEL,)
    done = run(binary, "serve", *model, *flags, **kwargs)
    assert done.returncode == 1, (flags, done)
    return "" if NO_MODEL in done.stderr else done.stderr


def start_scripts_are_accepted(binary):
    for flags in (("--tensor-parallel-size", "1"), ("-tp", "1"), ("-tp=1",), ("--trust-remote-code",), ("--seed", "0"),
                  ("--disable-log-requests",), ("--max-model-len", "-1"), ("--max-model-len", "auto"),
                  ("--max_model_len", "1k"), ("--max-model-len=1K",), ("--swap-space", "4"), ("--enforce-eager",),
                  ("--load-format", "auto"), ("--quantization", "awq"), ("-q", "fp8"), ("--dtype", "half"),
                  ("--gpu_memory_utilization", "0.9"), ("--enable-prefix-caching",), ("--no-enable-prefix-caching",),
                  ("--enable-lora", "--max-loras", "2", "--max-lora-rank", "64", "--max-cpu-loras", "4"),
                  ("--pipeline-parallel-size", "1"), ("--uvicorn-log-level", "warning"),
                  ("--served-model-name", "a", "b"), ("--port", "1", "--port", "2"),
                  ("--max-num-seqs", "64", "--max-num-seqs", "32"), ("--max-num-batched-tokens", "64"),
                  ("--max-num-batched-tokens", "8k"), ("--max-num-seqs", "4000"), ("--model", NO_MODEL),
                  ("--model", NO_MODEL, "--tokenizer", NO_MODEL)):
        assert flag_error(binary, *flags) == "", (flags, flag_error(binary, *flags))


def impossible_values_are_refused(binary):
    for said, *flags in (("in [1, 64]", "--tensor-parallel-size", "0"), ("in [1, 64]", "-pp", "0"),
                         ("expected one of", "--quantization", "bitsandbytes"), ("beside --ssl-keyfile", "--ssl-keyfile", "k"),
                         ("NAME=PATH", "--lora-modules", "x"), ("expected the model itself", "--tokenizer", "/other"),
                         ("expected one model", "--model", "/other"), ("25.6k", "--max-model-len", "1x"),
                         ("expected", "--max-model-len", "-2"),
                         ("max-num-seqs", "--max-num-seqs", "8", "--max-num-batched-tokens", "4")):
        done = run(binary, "serve", NO_MODEL, *flags)
        assert done.returncode == 1 and said in done.stderr, (flags, done.stderr)


def the_last_of_repeated_flags_counts(binary):
    with Server(binary, "--max-num-seqs", "7", "--max_num_seqs", "9", "--max-num-batched-tokens", "64",
                "--enable-prefix-caching", "--no-enable-prefix-caching", "--enable-dev-endpoints") as server:
        config = Surface(server).get("/server_info?config_format=json")["vllm_config"]
        assert config["max_num_seqs"] == 9 and config["max_num_batched_tokens"] == 64, config
        assert config["enable_prefix_caching"] is False, config


def one_warning_names_what_does_nothing(binary):
    with Server(binary, "--swap-space", "4", "--disable-log-requests", "--seed", "1") as server:
        warnings = [line for line in server.output().splitlines() if "no effect here" in line]
        assert len(warnings) == 1 and all(f in warnings[0] for f in ("--swap-space", "--disable-log-requests", "--seed"))


def keys_come_from_the_environment(binary):
    names = ("QUIRE_API_KEY", "VLLM_API_KEY")
    before = {name: os.environ.pop(name, None) for name in names}
    try:
        for environment, flags, key in (({"VLLM_API_KEY": "v"}, (), "v"), ({"QUIRE_API_KEY": "q", "VLLM_API_KEY": "v"},
                                        (), "q"), ({"VLLM_API_KEY": "v"}, ("--api-key", "f"), "f")):
            os.environ.update(environment)
            with Server(binary, *flags) as server:
                assert Surface(server, key).status("/v1/models", method="GET") == 200
                for wrong in {"v", "q", "f", "none"} - {key}:
                    assert Surface(server, wrong).status("/v1/models", method="GET") == 401
            for name in names:
                os.environ.pop(name, None)
    finally:
        os.environ.update({name: value for name, value in before.items() if value is not None})


def checkpoints_with_nonsense_are_refused(binary):
    for file, key, value in (("config.json", "torch_dtype", "zzz"), ("config.json", "eos_token_id", 2**40),
                             ("generation_config.json", "eos_token_id", 2**40)):
        with tempfile.TemporaryDirectory() as folder:
            for name in os.listdir(MODEL):
                os.symlink(os.path.join(MODEL, name), os.path.join(folder, name))
            path = os.path.join(folder, file)
            content = json.loads(read(path)) if os.path.exists(path) else {}
            if os.path.exists(path):
                os.unlink(path)
            with open(path, "w") as out:
                json.dump({**content, key: value}, out)
            done = run(binary, "generate", folder, "-p", "a", "--max-tokens", "1")
            lines = done.stderr.strip().splitlines()
            assert done.returncode == 1 and len(lines) == 1 and key in lines[0], (file, key, done)


def the_page_of_flags_is_the_parsers_table(binary):
    page = read(os.path.join(ROOT, "docs", "vllm-flags.md"))
    table = re.findall(r'\{"(--[^"]+)",\s*K::(\w+)(?:,\s*"([^"]*)")?\}',
                       read(os.path.join(ROOT, "apps", "quire", "vllm_flags.cc")))
    assert len(table) > 60
    for names, kind, values in table:
        name = names.split(",")[0]
        assert f"| `{name}` |" in page or f"`{name}`, " in page, f"{name} is not in docs/vllm-flags.md"
        value = {"kOne": ["1"], "kOneOf": values.split()[:1], "kNoEffect": ["x"], "kMissing": ["x"]}.get(kind, [])
        said = flag_error(binary, name, *value)
        assert (said == "") == (kind != "kMissing") and name in (said or name), (name, kind, said)
        if kind in ("kOne", "kOneOf"):
            assert name in flag_error(binary, name, "77"), name
    sections = page.split("\n## ")
    for name in re.findall(r"`(--[a-z-]+)`", "".join(s for s in sections if s.startswith(("One value", "No effect",
                                                                                          "Refused")))):
        assert any(name in names.split(",") for names, _, _ in table) or name in ("--enforce-eager", "--cudagraph-mode", "--max-images"), name


PROGRAM = [start_scripts_are_accepted, impossible_values_are_refused, the_last_of_repeated_flags_counts,
           one_warning_names_what_does_nothing, keys_come_from_the_environment, checkpoints_with_nonsense_are_refused,
           the_page_of_flags_is_the_parsers_table]


def outcome_of(function, *arguments):
    try:
        function(*arguments)
        return ""
    except Exception:  # noqa: BLE001: a case may fail in any way
        return traceback.format_exc()


def run_cases(binary, only):
    """Yields (name, kind, failure or empty)."""
    for flags in dict.fromkeys(flags for _, flags, _ in CASES):
        wanted = [(n, f) for n, fl, f in CASES if fl == flags and only in n]
        if not wanted:
            continue
        try:
            with Server(binary, *flags) as server:
                for name, function in wanted:
                    yield name, "passed", outcome_of(function, Surface(server))
        except RuntimeError as error:
            for name, _ in wanted:
                yield name, "passed", str(error)
    if any(only in name for name, _, _ in UNSUPPORTED):
        with Server(binary) as server:
            for name, path, fields in UNSUPPORTED:
                if only in name:
                    refusal = lambda p=path, f=fields: Surface(server).refuses(p, 501, **f)  # noqa: E731
                    yield name, "expected-unsupported", outcome_of(refusal)
    for function in PROGRAM:
        if only in function.__name__:
            yield function.__name__, "passed", outcome_of(function, binary)


def count(binary, only=""):
    counts = {"passed": 0, "expected-unsupported": 0, "failed": 0}
    for name, kind, failure in run_cases(binary, only):
        counts["failed" if failure else kind] += 1
        print(f"{name}: " + (f"FAILED\n{failure}" if failure else kind), flush=True)
    print("vLLM's surface: " + ", ".join(f"{number} {kind}" for kind, number in counts.items()), flush=True)
    return counts


def test_vllm_surface(binary):
    counts = count(binary)
    assert counts["failed"] == 0 and counts["passed"] > 0, counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--filter", default="", help="only cases whose name contains this")
    args = parser.parse_args()
    return 1 if count(args.binary, args.filter)["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
