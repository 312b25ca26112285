"""The Python package's connections, over servers that end them at any place. No engine runs."""
import asyncio
import os
import sys
import tempfile
import threading

from command import ROOT

sys.path.insert(0, os.path.join(ROOT, "python"))

from quire.client import Client, EngineDeadError  # noqa: E402
from quire.loop_thread import LoopThread  # noqa: E402

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
STREAM = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class StubEngine:
    def __init__(self, folder):
        self.socket_path = os.path.join(folder, "engine.sock")
        self.num_requests = 0

    @staticmethod
    def last_words():
        return "the last line"

    async def read_request(self, reader):
        head = await reader.readuntil(b"\r\n\r\n")
        size = [int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length")]
        await reader.readexactly(size[0])
        self.num_requests += 1


def run_with(serve, use):
    """Runs `use(client, engine)` against `serve(engine, reader, writer)`, which is called for each connection."""
    async def run():
        with tempfile.TemporaryDirectory() as folder:
            engine = StubEngine(folder)

            async def serve_one(reader, writer):
                await serve(engine, reader, writer)
                writer.close()

            server = await asyncio.start_unix_server(serve_one, engine.socket_path)
            client = Client(engine)
            await asyncio.wait_for(use(client, engine), 20)
            client.close()
            server.close()
            return engine
    return asyncio.run(run())


async def answer_one(engine, reader, writer):
    await engine.read_request(reader)
    writer.write(ANSWER)
    await writer.drain()


def test_an_idle_connection_that_was_closed_is_not_used(_):
    async def use(client, _):
        for _ in range(3):
            assert await client.post("/x", {}) == {}
            await asyncio.sleep(0.05)  # the loop sees the end of the connection

    assert run_with(answer_one, use).num_requests == 3


def test_a_request_is_sent_again_if_its_connection_closes_under_it(_):
    async def use(client, engine):
        assert await client.post("/x", {}) == {}
        await asyncio.sleep(0.05)
        client._idle[0][0].at_eof = lambda: False  # as if the loop had not read yet that it ended
        assert await client.post("/x", {"text": "a" * 100_000}) == {}

    assert run_with(answer_one, use).num_requests == 2


def test_a_request_that_the_engine_took_is_not_sent_again(_):
    async def serve(engine, reader, writer):
        await answer_one(engine, reader, writer)
        await engine.read_request(reader)

    async def use(client, _):
        assert await client.post("/x", {}) == {}
        try:
            await client.post("/x", {})
        except EngineDeadError as e:
            assert "the last line" in str(e), e
        else:
            raise AssertionError("expected an EngineDeadError")

    assert run_with(serve, use).num_requests == 2


def test_a_cut_stream_says_that_the_engine_has_ended(_):
    whole = b"f\r\ndata: {\"a\": 1}\n\r\n"
    for sent in (STREAM, STREAM + whole, STREAM + whole + b"1", STREAM + whole[:-4], STREAM[:-2]):
        async def serve(engine, reader, writer, sent=sent):
            await engine.read_request(reader)
            writer.write(sent)
            await writer.drain()

        async def use(client, _, num_events=int(whole in sent)):
            events = []
            try:
                async for event in client.stream("/x", {}):
                    events.append(event)
            except EngineDeadError:
                assert len(events) == num_events, events
            else:
                raise AssertionError("expected an EngineDeadError")

        run_with(serve, use)


def test_ending_the_loop_ends_waiting_calls(_):
    loop, started, raised, closed = LoopThread(), threading.Event(), [], []

    async def forever():
        started.set()
        await asyncio.sleep(3600)

    def wait():
        try:
            loop.run(forever())
        except EngineDeadError as e:
            raised.append(str(e))

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert started.wait(10)
    loop.end(lambda: closed.append(True))
    thread.join(10)
    assert not thread.is_alive() and raised == ["the engine was shut down"] and closed == [True]
    wait()  # does not wait for a loop that has ended
    assert len(raised) == 2
    loop.end(lambda: closed.append(True))
    assert closed == [True]
