#!/usr/bin/env python3
"""What `quire route` adds to a request, and how many streams it holds open.

    bench/serving/route_cost.py --binary build/release/quire [--requests 5000] [--streams 10000]

The backend answers at once and knows no model. Requests go to it and through the gateway in turns, on one connection each, so that
what is left between the two is the gateway.
"""
import argparse
import asyncio
import os
import resource
import statistics
import time

from kv_files import start

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b"e\r\ndata: {\"a\":1}\n\r\n"


def request_for(body):
    return (f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode() + body


async def read_request(reader):
    head = await reader.readuntil(b"\r\n\r\n")
    lower = head.lower()
    if b"content-length: " in lower:
        length = int(lower.split(b"content-length: ")[1].split(b"\r\n")[0])
        return head + await reader.readexactly(length)
    return head


class Backend:
    """A backend without a model. Streams wait for `go` after their first event."""

    def __init__(self):
        self.go = asyncio.Event()
        self.num_streams = 0

    async def serve(self, reader, writer):
        try:
            while True:
                request = await read_request(reader)
                if b'"stream":true' not in request:
                    writer.write(ANSWER)
                    continue
                writer.write(STREAM + EVENT)
                self.num_streams += 1
                await self.go.wait()
                writer.write(EVENT + b"0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()


async def time_requests(port, other_port, count, body):
    """Returns the seconds of requests to the two ports, alternating between them."""
    ends = [await asyncio.open_connection("127.0.0.1", p) for p in (port, other_port)]
    times = ([], [])
    for _ in range(count):
        for (reader, writer), out in zip(ends, times):
            begin = time.perf_counter()
            writer.write(request_for(body))
            await reader.readuntil(b"\r\n\r\n{}")
            out.append(time.perf_counter() - begin)
    for _, writer in ends:
        writer.close()
    return times


async def hold_streams(port, count, backend):
    """Returns how many streams were open at the same time and ended completely."""
    body = request_for(b'{"prompt":"a","stream":true}')
    ends = []
    for begin in range(0, count, 200):
        new = await asyncio.gather(*(asyncio.open_connection("127.0.0.1", port) for _ in range(min(200, count - begin))))
        for _, writer in new:
            writer.write(body)
        await asyncio.gather(*(reader.readuntil(b"data: {\"a\":1}\n\r\n") for reader, _ in new))
        ends += new
    num_open = backend.num_streams
    backend.go.set()
    rests = await asyncio.gather(*(reader.readuntil(b"0\r\n\r\n") for reader, _ in ends))
    return num_open, sum(b"data: " in rest for rest in rests)


async def measure(args):
    backend = Backend()
    server = await asyncio.start_server(backend.serve, "127.0.0.1", 0, backlog=1024)
    port = server.sockets[0].getsockname()[1]
    process, url = await asyncio.to_thread(start, [args.binary, "route", "--port", "0", "--backend", f"http://127.0.0.1:{port}"])
    gateway = int(url.rsplit(":", 1)[1])
    await asyncio.sleep(0.5)
    try:
        for size in (200, 20_000):
            body = b'{"prompt":"' + b"a" * size + b'"}'
            await time_requests(port, gateway, 200, body)
            direct, through = await time_requests(port, gateway, args.requests, body)
            extra = sorted(b - a for a, b in zip(direct, through))
            print(f"{size} bytes: {statistics.median(direct) * 1e6:.0f} us direct, {statistics.median(through) * 1e6:.0f} us through "
                  f"the gateway; it adds {statistics.median(extra) * 1e6:.0f} us at p50, {extra[len(extra) * 99 // 100] * 1e6:.0f} us at p99")
        if args.streams:
            began = time.perf_counter()
            num_open, ended = await hold_streams(gateway, args.streams, backend)
            with open(f"/proc/{process.pid}/status") as status:
                memory = next(line.split()[1] for line in status if line.startswith("VmHWM"))
            with open(f"/proc/{process.pid}/stat") as stat:
                ticks = sum(map(int, stat.read().rsplit(")", 1)[1].split()[11:13]))
            print(f"{num_open} streams open at once, {ended} ended whole, in {time.perf_counter() - began:.1f} s; the gateway had "
                  f"{ticks / os.sysconf('SC_CLK_TCK'):.1f} s of one core since its start and at most {int(memory) / 1024:.0f} MiB")
    finally:
        process.terminate()
        process.wait()
        server.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--requests", type=int, default=5000)
    parser.add_argument("--streams", type=int, default=10_000)
    args = parser.parse_args()
    wanted = 2 * args.streams + 1000  # this process has both ends of each connection
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
        except ValueError:
            args.streams = (hard - 1000) // 2
            print(f"only {hard} files may be open: {args.streams} streams")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    asyncio.run(measure(args))


if __name__ == "__main__":
    main()
