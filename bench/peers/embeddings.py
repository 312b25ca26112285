#!/usr/bin/env python3
"""Embeddings of texts of mixed lengths by Quire and by what others run on CPUs, in turns, on the same texts.

    build/peers/bin/python bench/peers/embeddings.py MODEL [--texts 192] [--clients 32] [--rounds 2] [--peers torch,onnxruntime]

MODEL is a folder of sentence-transformers, as tools/fetch_minilm.sh fetches one; with --shape bge-base the model is one of
that shape with random weights and MODEL's tokenizer. Quire is a server that so many clients ask, each for one text at a
time; the others get all texts at once, sorted by length, in batches of 32. One more client asks Quire for a short text
over and over: its 99th percentile is compared with the mean time of a step.
Needs sentence-transformers, and onnx and onnxruntime for --peers onnxruntime.
"""
import argparse
import http.client
import json
import os
import queue
import random
import re
import shutil
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "serving"))
import server as serving

LONGEST, SHORTEST, BATCH = 512, 8, 32
WORDS = "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they".split()


def texts_of(tokenizer, count):
    """Returns texts whose numbers of tokens are spread evenly over the logarithms of 8 to 512."""
    rng = random.Random(5)
    made = []
    for _ in range(count):
        length = round(SHORTEST * (LONGEST / SHORTEST) ** rng.random())
        made.append(" ".join(rng.choice(WORDS) for _ in range(length - 2)))  # each word is one token
    lengths = [len(ids) for ids in tokenizer(made)["input_ids"]]
    assert min(lengths) >= SHORTEST - 1 and max(lengths) <= LONGEST, (min(lengths), max(lengths))
    return made, sum(lengths)


def prepare(model, shape, folder):
    """Makes a copy of the model that reads 512 tokens, or one of another shape with the same tokenizer."""
    target = os.path.join(folder, "model")
    shutil.copytree(model, target)
    for name in ("sentence_bert_config.json", "tokenizer_config.json"):
        path = os.path.join(target, name)
        with open(path) as file:
            stated = json.load(file)
        stated.update({"max_seq_length": LONGEST} if name.startswith("sentence") else {"model_max_length": LONGEST})
        with open(path, "w") as file:
            json.dump(stated, file)
    if shape == "bge-base":
        import transformers
        config = transformers.BertConfig(vocab_size=30522, hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
                                         intermediate_size=3072)
        transformers.BertModel(config).save_pretrained(target)
        with open(os.path.join(target, "1_Pooling", "config.json"), "w") as file:
            json.dump(dict(word_embedding_dimension=768, pooling_mode_mean_tokens=True), file)
    return target


def post(connection, text):
    connection.request("POST", "/v1/embeddings", json.dumps({"input": text}), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    body = answer.read()
    if answer.status != 200:
        raise SystemExit(body.decode())
    return body


def steps_so_far(port):
    """Returns (seconds, number) of all steps so far."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    parts = re.findall(r'^quire:step_part_microseconds_total{.*part="(?:schedule|execute|update)".*} (\S+)$', text, re.M)
    counts = re.findall(r"^vllm:iteration_tokens_total_count(?:{.*})? (\S+)$", text, re.M)
    return sum(map(float, parts)) / 1e6, sum(map(float, counts))


def run_quire(binary, model, dtype, texts, clients):
    flags = [model, "--dtype", dtype, "--hardware", "none", "--max-num-batched-tokens", "2048"]
    with serving.Server(binary, flags) as server:
        waiting, short, done = queue.SimpleQueue(), [], threading.Event()
        for text in texts:
            waiting.put(text)

        def client():
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
            while True:
                try:
                    text = waiting.get_nowait()
                except queue.Empty:
                    return
                post(connection, text)

        def impatient():
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
            while not done.is_set():
                begin = time.perf_counter()
                post(connection, "the of and to in a")
                short.append(time.perf_counter() - begin)

        post(http.client.HTTPConnection("127.0.0.1", server.port), "warm")
        before = steps_so_far(server.port)
        threads = [threading.Thread(target=client) for _ in range(clients)]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        quick = threading.Thread(target=impatient)
        quick.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - begin
        done.set()
        quick.join()
        after = steps_so_far(server.port)
    step = (after[0] - before[0]) / (after[1] - before[1])
    short.sort()
    return seconds, short[min(len(short) - 1, int(0.99 * len(short)))] / step, step


def torch_runner(model, dtype):
    import sentence_transformers
    import torch
    torch.set_num_threads(os.cpu_count())
    loaded = sentence_transformers.SentenceTransformer(model, device="cpu", model_kwargs=dict(dtype=getattr(torch, dtype)))

    def run(texts):
        loaded.encode(texts, batch_size=BATCH, show_progress_bar=False)
    return run


def onnxruntime_runner(model):
    """Runs the model as fastembed does, but with batches sorted by length."""
    import onnxruntime
    import torch
    import transformers
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)

    class Hidden(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = transformers.BertModel.from_pretrained(model, attn_implementation="eager").eval()

        def forward(self, input_ids, attention_mask):
            return self.bert(input_ids, attention_mask=attention_mask).last_hidden_state

    path = os.path.join(model, "model.onnx")
    inputs = tokenizer(["the of and", "the"], padding=True, return_tensors="pt")
    axes = {0: "rows", 1: "length"}
    torch.onnx.export(Hidden(), (inputs["input_ids"], inputs["attention_mask"]), path, dynamo=False,
                      dynamic_axes=dict(input_ids=axes, attention_mask=axes), input_names=["input_ids", "attention_mask"])
    session = onnxruntime.InferenceSession(path)

    def run(texts):
        ordered = sorted(texts, key=len)
        for start in range(0, len(ordered), BATCH):
            batch = tokenizer(ordered[start:start + BATCH], padding=True, return_tensors="np")
            hidden = session.run(None, dict(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]))[0]
            mask = batch["attention_mask"][:, :, None]
            (hidden * mask).sum(1) / mask.sum(1)
    return run


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--binary", default=serving.BINARY)
    parser.add_argument("--shape", default="")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--texts", type=int, default=192)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--peers", default="torch")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        model = prepare(args.model, args.shape, folder)
        import transformers
        texts, tokens = texts_of(transformers.AutoTokenizer.from_pretrained(model), args.texts)
        peers = {}
        for name in filter(None, args.peers.split(",")):
            peers[name] = torch_runner(model, args.dtype) if name == "torch" else onnxruntime_runner(model)
            peers[name](texts[:4])
        print(f"{len(texts)} texts, {tokens} tokens, {args.dtype}", flush=True)
        ratios = {name: [] for name in peers}
        for _ in range(args.rounds):
            seconds, p99_steps, step = run_quire(args.binary, model, args.dtype, texts, args.clients)
            print(f"quire: {tokens / seconds:.0f} tokens/s; a step {1e3 * step:.0f} ms, "
                  f"p99 of a short text {p99_steps:.1f} steps", flush=True)
            for name, run in peers.items():
                begin = time.perf_counter()
                run(texts)
                taken = time.perf_counter() - begin
                ratios[name].append(taken / seconds)
                print(f"{name}: {tokens / taken:.0f} tokens/s", flush=True)
        for name, values in ratios.items():
            print(f"quire beside {name}: {statistics.median(values):.2f}x")


if __name__ == "__main__":
    main()
