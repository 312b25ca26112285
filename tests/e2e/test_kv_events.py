"""KV events as routers hear them: over ZeroMQ, in vLLM's format, with replay."""
import json
import time

import msgpack
import zmq

import harness
from command import refused
from process import Server
from test_kv_files import PLAIN, PROMPT, ask
from test_ranks import free_port

BLOCK = 16


class Listener:
    """Does what a router does: records which blocks the cache holds, by hash."""

    def __init__(self, port, replay_port, is_map):
        self.is_map = is_map
        self.context = zmq.Context()
        self.subscriber = self.context.socket(zmq.SUB)
        self.subscriber.setsockopt(zmq.RCVTIMEO, 10_000)
        self.subscriber.subscribe("kv@")
        self.subscriber.connect(f"tcp://127.0.0.1:{port}")
        self.replay_port = replay_port
        self.numbers, self.blocks, self.tokens = [], {}, {}

    def take(self, number, payload):
        if self.numbers and number <= self.numbers[-1]:  # already replayed
            return
        self.numbers.append(number)
        stamp, events, rank = msgpack.unpackb(payload)
        assert abs(stamp - time.time()) < 600 and rank is None, (stamp, rank)
        for event in events:
            assert self.is_map == isinstance(event, dict), event
            kind, *fields = event.values() if self.is_map else event
            if kind == "BlockStored":
                hashes, parent, tokens, block_size, lora_id, medium, lora_name = fields
                assert block_size == BLOCK and len(tokens) == BLOCK * len(hashes), fields
                assert lora_id is None and lora_name is None and medium == "GPU", fields
                for i, block in enumerate(hashes):
                    assert block not in self.blocks
                    assert parent is None or parent in self.blocks, "a block whose parent is not there"
                    self.tokens[block] = self.tokens.get(parent, []) + tokens[BLOCK * i:BLOCK * (i + 1)]
                    self.blocks[block] = parent
                    parent = block
            elif kind == "BlockRemoved":
                for block in fields[0]:
                    del self.blocks[block]
            else:
                assert kind == "AllBlocksCleared" and not fields, (kind, fields)
                self.blocks.clear()

    def hear(self, until, seconds=20):
        end = time.time() + seconds
        while not until():
            assert time.time() < end, self.blocks
            topic, number, payload = self.subscriber.recv_multipart()
            assert topic == b"kv@here", topic
            self.take(int.from_bytes(number, "big"), payload)

    def replay(self, first=0):
        dealer = self.context.socket(zmq.DEALER)
        dealer.setsockopt(zmq.RCVTIMEO, 10_000)
        dealer.connect(f"tcp://127.0.0.1:{self.replay_port}")
        dealer.send_multipart([b"", first.to_bytes(8, "big")])
        while True:
            empty, number, payload = dealer.recv_multipart()
            assert empty == b""
            if int.from_bytes(number, "big", signed=True) == -1:
                assert payload == b""
                return
            yield int.from_bytes(number, "big"), payload


def test_a_router_knows_what_the_cache_holds(binary):
    listen(binary, {}, is_map=True)


def test_a_router_of_before_knows_it_too(binary):
    listen(binary, {"event_format": "array"}, is_map=False)


def listen(binary, keys, is_map):
    port, replay_port = free_port(), free_port()
    config = {"enable_kv_cache_events": True, "publisher": "zmq", "endpoint": f"tcp://127.0.0.1:{port}", "topic": "kv@here",
              "replay_endpoint": f"tcp://127.0.0.1:{replay_port}", **keys}
    with Server(binary, *PLAIN, "--kv-events-config", json.dumps(config), "--num-gpu-blocks-override", "64",
                "--max-model-len", "900", "--enable-dev-endpoints") as server:
        listener = Listener(port, replay_port, is_map)
        context = harness.Context(server.url, "none", server.process.pid)
        _, _, text = context.request("POST", "/tokenize", {"prompt": PROMPT})
        tokens = json.loads(text)["tokens"]
        ask(server.url)  # may be published before the subscription is active
        for number, payload in listener.replay():
            listener.take(number, payload)
        num_blocks = len(tokens) // BLOCK
        assert num_blocks > 4 and any(t == tokens[:BLOCK * num_blocks] for t in listener.tokens.values()), listener.tokens
        ask(server.url, "Now something else. " + PROMPT)
        seen = len(listener.numbers)
        listener.hear(lambda: len(listener.numbers) > seen)
        # Sends enough requests to evict blocks.
        for i in range(12):
            ask(server.url, f"{i} {PROMPT}")
        before = len(listener.blocks)
        context.request("POST", "/reset_prefix_cache", {})
        listener.hear(lambda: not listener.blocks)
        assert before > 0
        assert listener.numbers == list(range(len(listener.numbers))), listener.numbers
        again = list(listener.replay(3))
        assert [number for number, _ in again] == listener.numbers[3:]
        # Blocks of a tenant must not be published, because their hashes would be wrong for all
        # others.
        ask(server.url, cache_salt="tenant")
        ask(server.url, "The end of it, and a few words more so that there is a block of it all.")
        seen = len(listener.numbers)
        listener.hear(lambda: len(listener.numbers) > seen)
        assert all(t != tokens[:BLOCK] for b, t in listener.tokens.items() if b in listener.blocks)
    refused(binary, "expected zmq", "generate", "-p", "x", "--kv-events-config", json.dumps({"publisher": "kafka"}))
