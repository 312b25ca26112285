"""`quire run-batch`: files of requests, as OpenAI's batches have them."""
import json
import os
import tempfile

import harness
from command import ok, run
from process import Server


def request(name, url="/v1/completions", **body):
    body = body or {"prompt": f"{name}: once upon a time", "max_tokens": 12, "seed": 7, "logprobs": 2}
    return {"custom_id": name, "method": "POST", "url": url, "body": body}


def run_batch(binary, folder, lines, *flags):
    source, target = os.path.join(folder, "in.jsonl"), os.path.join(folder, "out.jsonl")
    with open(source, "w") as file:
        file.writelines(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    done = ok(binary, "run-batch", "-i", source, "-o", target, *flags)
    with open(target) as file:
        answers = [json.loads(line) for line in file]
    return done.stderr, {answer["custom_id"]: answer for answer in answers}, answers


def test_a_batch_has_the_servers_answers(binary):
    lines = [request(f"r{i}") for i in range(40)]
    lines.append(request("chat", "/v1/chat/completions", messages=[{"role": "user", "content": "Hi"}], max_tokens=8,
                         temperature=0))
    with tempfile.TemporaryDirectory() as folder:
        said, by_name, answers = run_batch(binary, folder, lines)
        assert "41 requests: 41 answered, 0 failed, 0 kept" in said and len(answers) == 41, said
        said, _, again = run_batch(binary, folder, [*lines, request("more"), "\n", "not json\n"])
        assert "43 requests: 1 answered, 1 failed, 41 kept" in said, said
        assert any(answer["error"] and "line 44" in answer["error"]["message"] for answer in again[-2:]), again[-2:]
    with Server(binary) as server:
        context = harness.Context(server.url, "none", server.process.pid)
        context.wait_ready(60)
        for line in lines[::5]:
            served = context.post(line["url"], line["body"])["choices"]
            assert by_name[line["custom_id"]]["response"]["body"]["choices"] == served, line


def test_batches_that_cannot_be(binary):
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "in.jsonl")
        for said, *flags in (("--input-file", "-o", "x"), ("cannot be read", "-i", source, "-o", "x"),
                             ("in [1, 4096]", "-i", source, "-o", "x", "--max-concurrent", "0")):
            done = run(binary, "run-batch", *flags)
            assert done.returncode == 1 and said in done.stderr, done
