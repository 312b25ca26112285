"""/v1/files and /v1/batches through the official openai client, over a restart of the server."""
import io
import json
import tempfile
import time

import openai
from process import Server


def client_of(server):
    return openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)


def requests(n, max_tokens=4):
    lines = [{"custom_id": f"r{i}", "method": "POST", "url": "/v1/chat/completions",
              "body": {"messages": [{"role": "user", "content": f"Say {i}"}], "max_tokens": max_tokens, "temperature": 0}}
             for i in range(n)]
    return "\n".join(json.dumps(line) for line in lines)


def ended(client, batch, seconds=60):
    end = time.time() + seconds
    while batch.status not in ("completed", "failed", "cancelled", "expired"):
        assert time.time() < end, batch
        time.sleep(0.05)
        batch = client.batches.retrieve(batch.id)
    return batch


def begun(client, text):
    file = client.files.create(file=("in.jsonl", io.BytesIO(text.encode())), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h",
                                 metadata={"name": "test"})


def test_batches_through_the_official_client(binary):
    with tempfile.TemporaryDirectory() as folder:
        with Server(binary, "--hardware", "none", "--files-dir", folder) as server:
            client = client_of(server)
            batch = ended(client, begun(client, requests(20)))
            assert batch.status == "completed" and batch.request_counts.completed == 20, batch
            assert batch.metadata == {"name": "test"} and batch.error_file_id is None, batch
            answers = [json.loads(line) for line in client.files.content(batch.output_file_id).text.splitlines()]
            assert sorted(answer["custom_id"] for answer in answers) == sorted(f"r{i}" for i in range(20))
            # The answer must have the same bits as that of a single request.
            alone = client.chat.completions.create(model=client.models.list().data[0].id, max_tokens=4, temperature=0,
                                                   messages=[{"role": "user", "content": "Say 7"}])
            (seventh,) = [answer for answer in answers if answer["custom_id"] == "r7"]
            assert seventh["response"]["body"]["choices"][0]["message"]["content"] == alone.choices[0].message.content
            wrong = ended(client, begun(client, "no json"))
            assert wrong.status == "failed" and wrong.errors.data[0].line == 1, wrong
            assert {b.id for b in client.batches.list()} == {wrong.id, batch.id}
            for file in client.files.list():
                assert client.files.delete(file.id).deleted
            assert list(client.files.list()) == []


def test_batches_go_on_after_a_restart(binary):
    with tempfile.TemporaryDirectory() as folder:
        flags = ("--hardware", "none", "--files-dir", folder, "--batch-concurrency", "2")
        with Server(binary, *flags) as server:
            client = client_of(server)
            batch = begun(client, requests(300, max_tokens=16))
            while client.batches.retrieve(batch.id).request_counts.completed < 3:
                time.sleep(0.01)
        with Server(binary, *flags) as server:
            client = client_of(server)
            batch = ended(client, batch)
            assert batch.status == "completed" and batch.request_counts.completed == 300, batch
            lines = client.files.content(batch.output_file_id).text.splitlines()
            assert len({json.loads(line)["custom_id"] for line in lines}) == len(lines) == 300
            cancelled = begun(client, requests(2000, max_tokens=16))
            client.batches.cancel(cancelled.id)
            assert ended(client, cancelled).status == "cancelled"
