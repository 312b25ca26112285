"""Clients try to make a server hold more than it should, or wait. Each test has a server of its own; loops end by count and time."""
import contextlib
import json
import socket
import time

import harness
from process import Server


def context_of(server):
    return harness.Context(server.url, "none", server.process.pid)


def connect(server):
    connection = socket.create_connection(("127.0.0.1", server.port))
    connection.settimeout(30)
    return connection


def rss_comes_back(ctx, before_mib, slack_mib, seconds=10):
    """Waits until freed memory has returned to the system, which takes a few seconds."""
    end = time.time() + seconds
    while (now := ctx.rss_mib()) > before_mib + slack_mib:
        assert time.time() < end, f"memory stays at {now:.0f} MiB; it was {before_mib:.0f} MiB"
        time.sleep(0.2)


def stream_request(prompt, max_tokens):
    body = json.dumps({"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "stream": True}).encode()
    return (b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body)) + body


def test_endless_chunk_extension_and_trailer(binary):
    head = b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with Server(binary) as server:
        ctx = context_of(server)
        before = ctx.rss_mib()
        for begin in (b"1;extension=", b"0\r\nTrailer: ", b"0;extension="):
            with connect(server) as connection:
                connection.sendall(head + begin)
                sent = 0
                with contextlib.suppress(OSError):  # the server refused the connection and closed it, as it should
                    while sent < 256 << 20:
                        sent += connection.send(b"x" * 65536)
                assert sent < 128 << 20, f"{begin}: {sent} bytes were read"
        assert ctx.rss_mib() < before + 16, (before, ctx.rss_mib())
        assert ctx.request("GET", "/version")[0] == 200


def test_million_messages(binary):
    message = '{"role":"user","content":""}'
    bodies = {413: '{"messages":[' + ",".join([message] * 1_000_000) + "]}",  # 29 MB
              400: '{"messages":[' + ",".join([message] * 80_000) + "]}"}    # near the limit; more than the context
    with Server(binary) as server:
        ctx = context_of(server)
        assert ctx.request("GET", "/version")[0] == 200
        before = ctx.rss_mib()
        for status, body in bodies.items():
            for _ in range(4):
                with connect(server) as connection:
                    data = body.encode()
                    connection.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                                       b"Content-Length: %d\r\n\r\n" % len(data) + data)
                    answer = connection.recv(65536)
                assert int(answer[9:12]) == status, answer
        rss_comes_back(ctx, before, 32)


def test_thousand_slow_readers(binary):
    """A thousand streams that no client reads: memory is bounded, and a short request is still answered."""
    with Server(binary, "--max-unread-size", "32MiB", "--kv-cache-memory-bytes", "64MiB") as server:
        ctx = context_of(server)
        ctx.post("/v1/completions", {"prompt": "warm", "max_tokens": 4})
        before = ctx.rss_mib()
        readers = [connect(server) for _ in range(1000)]
        for reader in readers:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.sendall(stream_request("Once upon a time", 1000))
        start = time.time()
        status, _, text = ctx.request("POST", "/v1/completions", {"prompt": "short", "max_tokens": 4}, timeout=300)
        waited = time.time() - start
        assert status == 200, text
        # A short request has a place that long requests never take, so it does not have to wait
        # until one of them is cut off.
        assert ctx.metric("vllm:num_requests_waiting") > 0, "it waited behind all streams that nobody reads"
        assert ctx.metric("quire:unread_stream_bytes") <= 64 << 20
        print(f"slow readers: a short request took {waited:.1f} s, rss {before:.0f} -> {ctx.rss_mib():.0f} MiB")
        for reader in readers:
            reader.close()
        ctx.wait_idle(60)
        rss_comes_back(ctx, before, 64 + 32)  # the KV cache is touched as it is used


def test_origins_and_page_by_flag(binary):
    flags = ["--allowed-origins", '["https://a.example"]', "--allow-credentials", "--no-web-page", "--max-parsed-size", "8KiB"]
    with Server(binary, *flags) as server:
        ctx = context_of(server)
        ctx_headers = ctx.headers
        for origin, allowed in (("https://a.example", "https://a.example"), ("http://localhost:3000", None)):
            ctx.headers = lambda origin=origin: ctx_headers() | {"Origin": origin}
            _, headers, _ = ctx.request("GET", "/v1/models")
            assert headers["Access-Control-Allow-Origin"] == allowed, (origin, headers)
        assert ctx.request("GET", "/quire/stats")[0] == 404
        assert ctx.request("GET", "/")[0] == 404
        assert ctx.request("POST", "/v1/completions", {"prompt": "a" * 9000})[0] == 413
