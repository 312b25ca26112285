"""The API through the official openai client: chat, completions, streaming, logprobs, n, stop, errors, cancel."""
import json
import math
import time

MESSAGES = [{"role": "user", "content": "Tell me a short story about a dog."}]
PROMPT = "Once upon a time"


def test_models(ctx):
    models = ctx.client().models.list().data
    assert models and models[0].object == "model", models
    assert ctx.client().models.retrieve(models[0].id).id == models[0].id


def test_completion(ctx):
    answer = ctx.client().completions.create(model=ctx.model, prompt=PROMPT, max_tokens=12, temperature=0)
    assert answer.object == "text_completion" and answer.id.startswith("cmpl-")
    assert len(answer.choices) == 1 and answer.choices[0].finish_reason in ("stop", "length")
    assert 1 <= answer.usage.completion_tokens <= 12
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_completion_stream_equals_whole(ctx):
    arguments = dict(model=ctx.model, prompt=PROMPT, max_tokens=24, temperature=0.8, seed=7)
    whole = ctx.client().completions.create(**arguments)
    text, finish, usage = "", None, None
    for chunk in ctx.client().completions.create(**arguments, stream=True, stream_options={"include_usage": True}):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.text
            finish = choice.finish_reason or finish
    assert text == whole.choices[0].text, (text, whole.choices[0].text)
    assert finish == whole.choices[0].finish_reason
    assert usage.completion_tokens == whole.usage.completion_tokens


def test_prompt_forms(ctx):
    client, model = ctx.client(), ctx.model
    ids = ctx.post("/tokenize", {"prompt": PROMPT})["tokens"]
    common = dict(model=model, max_tokens=8, temperature=0)
    text = client.completions.create(prompt=PROMPT, **common).choices[0].text
    assert client.completions.create(prompt=ids, **common).choices[0].text == text
    many = client.completions.create(prompt=[PROMPT, PROMPT], **common)
    assert [c.index for c in many.choices] == [0, 1] and {c.text for c in many.choices} == {text}
    many = client.completions.create(prompt=[ids, ids, ids], **common)
    assert [c.index for c in many.choices] == [0, 1, 2] and {c.text for c in many.choices} == {text}


def test_echo(ctx):
    answer = ctx.client().completions.create(model=ctx.model, prompt=PROMPT, max_tokens=4, echo=True, logprobs=1,
                                             temperature=0)
    assert answer.choices[0].text.startswith(PROMPT), answer.choices[0].text
    logprobs = answer.choices[0].logprobs
    assert len(logprobs.tokens) == answer.usage.total_tokens
    assert logprobs.token_logprobs[0] is None and all(x <= 0 for x in logprobs.token_logprobs[1:])


def test_completion_logprobs(ctx):
    answer = ctx.client().completions.create(model=ctx.model, prompt=PROMPT, max_tokens=6, logprobs=3, temperature=0)
    logprobs = answer.choices[0].logprobs
    assert len(logprobs.tokens) == answer.usage.completion_tokens
    for token, logprob, top in zip(logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs):
        assert logprob <= 1e-6 and 1 <= len(top) <= 4 and token in top
        assert math.isclose(max(top.values()), top[token], abs_tol=1e-5), "greedy takes the likeliest token"


def test_chat(ctx):
    answer = ctx.client().chat.completions.create(model=ctx.model, messages=MESSAGES, max_tokens=16, temperature=0)
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-")
    assert answer.choices[0].message.role == "assistant" and isinstance(answer.choices[0].message.content, str)


def test_chat_stream(ctx):
    arguments = dict(model=ctx.model, messages=MESSAGES, max_tokens=24, temperature=0.9, seed=3)
    whole = ctx.client().chat.completions.create(**arguments)
    chunks = list(ctx.client().chat.completions.create(**arguments, stream=True,
                                                       stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[0].choices[0].delta.content == ""
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole.choices[0].message.content
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == whole.choices[0].finish_reason
    assert len({c.id for c in chunks}) == 1


def test_timings_come_with_the_usage(ctx):
    arguments = dict(model=ctx.model, messages=MESSAGES, max_tokens=16, temperature=0)
    asked = {"extra_body": {"return_timings": True}}
    whole = ctx.client().chat.completions.create(**arguments, **asked)
    *_, last = ctx.client().chat.completions.create(**arguments, **asked, stream=True)
    for usage in (whole.usage, last.usage):
        t = usage.timings
        assert 0 < t["first_token_ms"] <= t["last_token_ms"]
        assert min(t["queue_ms"], t["prompt_ms"], t["decode_ms"]) >= 0
        assert math.isclose(t["queue_ms"] + t["prompt_ms"] + t["decode_ms"], t["last_token_ms"], abs_tol=0.01)
    assert not hasattr(ctx.client().chat.completions.create(**arguments).usage, "timings")


def test_explorer_finds_what_was_chatted(ctx):
    messages = [{"role": "user", "content": "Tell me about a fox that lives by the river. " * 6}]
    ctx.client().chat.completions.create(model=ctx.model, messages=messages, max_tokens=2)
    explored = ctx.post("/quire/kv/explore", {"a": messages, "b": messages[0]["content"]})
    full = (len(explored["a"]["tokens"]) - 1) // explored["block_size"]
    assert explored["cached_blocks_a"] >= full >= 1
    assert explored["cached_blocks_b"] == 0, "the bare text is another prompt"


def test_chat_logprobs(ctx):
    answer = ctx.client().chat.completions.create(model=ctx.model, messages=MESSAGES, max_tokens=6, logprobs=True,
                                                  top_logprobs=4, temperature=0)
    content = answer.choices[0].logprobs.content
    assert len(content) == answer.usage.completion_tokens
    for token in content:
        assert token.logprob <= 1e-6 and len(token.top_logprobs) == 4
        assert bytes(token.bytes).decode(errors="replace") == token.token
        assert token.top_logprobs == sorted(token.top_logprobs, key=lambda t: -t.logprob)


def test_n(ctx):
    answer = ctx.client().chat.completions.create(model=ctx.model, messages=MESSAGES, max_tokens=8, n=3, seed=1,
                                                  temperature=1)
    assert [c.index for c in answer.choices] == [0, 1, 2]
    streamed = {0: "", 1: "", 2: ""}
    for chunk in ctx.client().chat.completions.create(model=ctx.model, messages=MESSAGES, max_tokens=8, n=3, seed=1,
                                                      temperature=1, stream=True):
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
    assert streamed == {c.index: c.message.content for c in answer.choices}


def test_stop(ctx):
    client, model = ctx.client(), ctx.model
    text = client.completions.create(model=model, prompt=PROMPT, max_tokens=40, temperature=0).choices[0].text
    stop = next((text[i:i + 2] for i in range(4, len(text) - 3) if text[i:i + 2] not in text[:i]), None)
    assert stop, "the model says too little to stop it"
    for stream in (False, True):
        answer = client.completions.create(model=model, prompt=PROMPT, max_tokens=40, temperature=0, stop=[stop],
                                           stream=stream)
        if stream:
            chunks = list(answer)
            got, choice = "".join(c.choices[0].text for c in chunks), chunks[-1].choices[0]
        else:
            got, choice = answer.choices[0].text, answer.choices[0]
        assert got == text[:text.index(stop)], (got, stop)
        assert choice.finish_reason == "stop" and choice.stop_reason == stop


def test_seed(ctx):
    arguments = dict(model=ctx.model, prompt=PROMPT, max_tokens=16, temperature=1, seed=11)
    first = ctx.client().completions.create(**arguments).choices[0].text
    assert ctx.client().completions.create(**arguments).choices[0].text == first


def test_max_tokens_is_length(ctx):
    answer = ctx.client().completions.create(model=ctx.model, prompt=PROMPT, max_tokens=1,
                                             extra_body={"ignore_eos": True})
    assert answer.choices[0].finish_reason == "length" and answer.usage.completion_tokens == 1


def test_errors(ctx):
    import openai
    client, model = ctx.client(), ctx.model
    cases = [
        (openai.NotFoundError, dict(model="no-such-model", prompt="a")),
        (openai.BadRequestError, dict(model=model, prompt="a", temperature=9)),
        (openai.BadRequestError, dict(model=model, prompt=[])),
        (openai.BadRequestError, dict(model=model, prompt="a", n=2, best_of=1)),
        (openai.BadRequestError, dict(model=model, prompt="a " * 200000)),
    ]
    for kind, arguments in cases:
        try:
            client.completions.create(max_tokens=2, **arguments)
        except kind as error:
            assert error.body["message"] and error.body["code"] == error.status_code, error.body
        else:
            raise AssertionError(f"no {kind.__name__} for {str(arguments)[:80]}")
    assert client.completions.create(model=model, prompt="a", max_tokens=1).choices


def test_unknown_fields_warn(ctx):
    answer = ctx.client().completions.with_raw_response.create(
        model=ctx.model, prompt=PROMPT, max_tokens=1, extra_body={"guided_json": {"type": "object"}})
    assert "guided_json" in answer.headers["X-Quire-Warning"]


def test_tokenize_round_trip(ctx):
    text = "Hello, world! 123"
    answer = ctx.post("/tokenize", {"prompt": text, "add_special_tokens": False, "return_token_strs": True})
    assert answer["count"] == len(answer["tokens"]) == len(answer["token_strs"])
    assert ctx.post("/detokenize", {"tokens": answer["tokens"]})["prompt"].strip() == text
    chat = ctx.post("/tokenize", {"messages": MESSAGES})
    assert chat["count"] > 5


def test_metrics_count_exactly(ctx):
    ctx.wait_idle()
    names = ("vllm:generation_tokens_total", "vllm:prompt_tokens_total", "vllm:request_success_total",
             "vllm:e2e_request_latency_seconds_count")
    before = [ctx.metric(name) for name in names]
    prompt_tokens = 0
    for i in range(10):
        answer = ctx.client().completions.create(model=ctx.model, prompt=f"{PROMPT} {i}", max_tokens=10,
                                                 extra_body={"ignore_eos": True})
        prompt_tokens += answer.usage.prompt_tokens
    ctx.wait_idle()
    after = [ctx.metric(name) for name in names]
    assert [b - a for a, b in zip(before, after)] == [100, prompt_tokens, 10, 10], (before, after, prompt_tokens)


def test_cancel_frees_everything(ctx):
    ctx.wait_idle()
    aborted = ctx.metric("vllm:request_success_total", finished_reason="abort")
    stream = ctx.client().completions.create(model=ctx.model, prompt=PROMPT, max_tokens=500, stream=True,
                                             extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    ctx.wait_idle(10)
    assert ctx.metric("vllm:request_success_total", finished_reason="abort") == aborted + 1


def test_disconnect_without_stream(ctx):
    import socket
    ctx.wait_idle()
    aborted = ctx.metric("vllm:request_success_total", finished_reason="abort")
    body = json.dumps({"model": ctx.model, "prompt": PROMPT, "max_tokens": 500, "ignore_eos": True}).encode()
    with socket.create_connection((ctx.host, ctx.port)) as sock:
        head = "".join(f"{k}: {v}\r\n" for k, v in ctx.headers().items())
        sock.sendall(f"POST /v1/completions HTTP/1.1\r\nHost: x\r\n{head}Content-Length: {len(body)}\r\n\r\n"
                     .encode() + body)
        end = time.time() + 10
        while ctx.get("/load")["server_load"] == 0 and time.time() < end:
            time.sleep(0.002)
    ctx.wait_idle(10)
    assert ctx.metric("vllm:request_success_total", finished_reason="abort") == aborted + 1


def test_web_page_and_description(ctx):
    assert "<html" in ctx.request("GET", "/")[2].lower()
    assert "/v1/chat/completions" in ctx.get("/openapi.json")["paths"]
    blocks = ctx.get("/quire/kv/blocks")
    assert sum(run[0] for run in blocks["runs"]) == blocks["num_blocks"]
    explored = ctx.post("/quire/kv/explore", {"a": PROMPT + " a", "b": PROMPT + " b"})
    assert explored["shared_tokens"] >= 1
