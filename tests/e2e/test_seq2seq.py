"""Models whose encoder reads the prompt, through the official client, the terminal and Python."""
import json
import os
import subprocess
import threading

import harness
from process import Server

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def golden(name):
    path = os.path.join(ROOT, "tests", "goldens", "seq2seq", name)
    with open(os.path.join(path, "golden.json")) as file:
        return path, json.load(file)


def served(binary, path, *flags):
    server = Server(binary, path, "--hardware", "none", "--dtype", "float32", *flags)
    return server, harness.Context(server.url, "none", server.process.pid)


def complete(context, prompt, tokens, **more):
    return context.client().completions.create(model=context.model, prompt=prompt, max_tokens=tokens, temperature=0,
                                               **more)


def refused(context, part, status=400, **fields):
    import openai
    try:
        complete(context, **fields)
    except openai.APIStatusError as error:
        assert error.status_code == status, (error.status_code, str(error))
        assert part in str(error), (part, str(error))
        return
    raise AssertionError(f"expected {status}: {part}")


def test_answers_are_those_of_transformers(binary):
    for name in ("t5", "mt5", "bart"):
        path, expected = golden(name)
        answers, tokens = expected["answers"], expected["answer_tokens"]
        server, context = served(binary, path)
        with server:
            for one in answers:
                got = complete(context, one["text"], tokens)
                assert got.choices[0].text == one["answer"], (name, got.choices[0].text, one)
                assert got.usage.prompt_tokens == len(one["source"]), (got.usage, one)
            # Sends ids instead of text, several at once, and as streams.
            many = complete(context, [one["source"] for one in answers], tokens)
            assert [c.text for c in many.choices] == [one["answer"] for one in answers], many
            chunks = complete(context, answers[0]["text"], tokens, stream=True)
            assert "".join(c.choices[0].text for c in chunks) == answers[0]["answer"]
            # All n choices use the same source, and beams are at least as likely as one choice.
            pair = complete(context, answers[0]["text"], tokens, n=2, logprobs=0,
                            extra_body={"use_beam_search": True, "length_penalty": 0, "ignore_eos": True})
            one = complete(context, answers[0]["text"], tokens, logprobs=0, extra_body={"ignore_eos": True})
            beams = [sum(c.logprobs.token_logprobs) for c in pair.choices]
            assert beams[0] >= beams[1] and beams[0] >= sum(one.choices[0].logprobs.token_logprobs) - 1e-4, beams
        for one in answers:
            out = subprocess.run([binary, "generate", path, "-p", one["text"], "--quiet", "--max-tokens", str(tokens),
                                  "--temperature", "0", "--dtype", "float32"], capture_output=True, text=True, timeout=120)
            assert out.returncode == 0 and one["answer"].strip() in out.stdout, (out.stdout, out.stderr)


def test_a_crowd_gets_what_each_gets_alone(binary):
    path, expected = golden("t5")
    server, context = served(binary, path, "--max-num-seqs", "4", "--max-num-batched-tokens", "48")
    texts = [f"{one['text']} {i}" for one in expected["answers"] for i in range(8)]
    with server:
        alone = [complete(context, text, 40).choices[0].text for text in texts]
        assert len(set(alone)) > 8, alone
        got = [None] * len(texts)

        def ask(i):
            got[i] = complete(context, texts[i], 40).choices[0].text

        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(texts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert got == alone


def test_what_cannot_be_is_refused(binary):
    path, expected = golden("t5")
    text = expected["answers"][0]["text"]
    server, context = served(binary, path)
    with server:
        refused(context, "maximum context length is 96 tokens, so a prompt has at most 96; got 202",
                prompt="a " * 200, tokens=4)
        cut = complete(context, "a " * 200, 4, extra_body={"truncate_prompt_tokens": -1})
        assert cut.usage.prompt_tokens == 96, cut.usage
        refused(context, "the model's encoder reads the prompt", prompt=text, tokens=4, logprobs=1, echo=True)
        status, _, body = context.request("POST", "/v1/chat/completions",
                                          {"model": context.model, "messages": [{"role": "user", "content": text}]})
        assert status == 400 and "the model has no chat template" in body, (status, body)
        whole = complete(context, text, 4, echo=True)
        assert whole.choices[0].text.startswith(text)
    out = subprocess.run([binary, "serve", path, "--enable-lora", "--port", "0"], capture_output=True, text=True,
                         timeout=60)
    assert out.returncode != 0 and "--enable-lora: expected a model without an encoder" in out.stderr, out.stderr


def test_python_answers_are_those_of_transformers(binary):
    import sys
    sys.path.insert(0, os.path.join(ROOT, "python"))
    from quire import LLM, SamplingParams
    path, expected = golden("t5")
    answers = expected["answers"]
    with LLM(path, binary=binary, dtype="float32") as llm:
        outputs = llm.generate([one["text"] for one in answers],
                               SamplingParams(temperature=0, max_tokens=expected["answer_tokens"]), use_tqdm=False)
        assert [output.outputs[0].text for output in outputs] == [one["answer"] for one in answers], outputs
