"""An asyncio client for HTTP over the engine's socket. It supports the parts of HTTP that the engine
uses."""
from __future__ import annotations

import asyncio
import json
from typing import Any, AsyncIterator, Dict, List, Optional, Tuple

from quire.process import EngineProcess

Reader = asyncio.StreamReader
Writer = asyncio.StreamWriter

_LINE_BYTES = 1 << 30  # an event is one line


class EngineDeadError(RuntimeError):
    """The engine's process has ended."""


class _NotTakenError(EngineDeadError):
    """The connection broke before the engine had read all of the request."""


class Client:
    """Connections to one engine, used on one event loop. Idle connections are kept."""

    def __init__(self, engine: EngineProcess) -> None:
        self._engine = engine
        self._idle: List[Tuple[Reader, Writer]] = []

    async def get(self, path: str) -> Any:
        return await self._exchange("GET", path, None)

    async def post(self, path: str, body: Dict[str, Any]) -> Any:
        """Returns the answer. Raises ValueError with the engine's message if the engine refused the
        request."""
        return await self._exchange("POST", path, body)

    async def stream(self, path: str, body: Dict[str, Any]) -> AsyncIterator[Any]:
        """Yields the events of an answer. Leaving early ends the request in the engine."""
        reader, writer = await self._connect()
        try:
            headers = await self._send(reader, writer, "POST", path, body)
            if headers[":status"] != "200":
                raise self._error(int(headers[":status"]), await _read_body(reader, headers))
            async for line in _lines(_chunks(reader)):
                if not line.startswith(b"data: "):
                    continue
                if line == b"data: [DONE]":
                    return
                event = json.loads(line[6:])
                if "error" in event:
                    raise self._error(event["error"].get("code", 500), line[6:])
                yield event
        except (ConnectionError, asyncio.IncompleteReadError) as e:
            raise self._dead() from e
        finally:
            writer.close()

    def close(self) -> None:
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()

    async def _exchange(self, method: str, path: str, body: Optional[Dict[str, Any]]) -> Any:
        kept = self._take_idle()
        if kept is not None:
            try:
                return await self._exchange_on(kept, method, path, body)
            except _NotTakenError:  # the engine has just closed the connection, because it was idle
                pass
        return await self._exchange_on(await self._connect(), method, path, body)

    def _take_idle(self) -> Optional[Tuple[Reader, Writer]]:
        """Returns a kept connection that the engine has not closed, if there is one."""
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and reader.exception() is None:
                return reader, writer
            writer.close()
        return None

    async def _exchange_on(self, connection: Tuple[Reader, Writer], method: str, path: str,
                           body: Optional[Dict[str, Any]]) -> Any:
        reader, writer = connection
        whole = False
        try:
            try:
                headers = await self._send(reader, writer, method, path, body)
            except ConnectionError as e:
                # A Unix socket is reset only if its other end was closed with bytes that it had not
                # read. So the request did not run. An end of file does not say that.
                raise _NotTakenError(str(self._dead())) from e
            data = await _read_body(reader, headers)
            whole = headers.get("connection", "").lower() != "close"
        except (ConnectionError, asyncio.IncompleteReadError) as e:
            raise self._dead() from e
        finally:
            if whole:
                self._idle.append((reader, writer))
            else:
                writer.close()
        if headers[":status"] != "200":
            raise self._error(int(headers[":status"]), data)
        return json.loads(data) if data else None

    async def _connect(self) -> Tuple[Reader, Writer]:
        try:
            return await asyncio.open_unix_connection(self._engine.socket_path, limit=_LINE_BYTES)
        except OSError as e:
            raise self._dead() from e

    async def _send(self, reader: Reader, writer: Writer, method: str, path: str,
                    body: Optional[Dict[str, Any]]) -> Dict[str, str]:
        data = b"" if body is None else json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")
        head = f"{method} {path} HTTP/1.1\r\nHost: quire\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        await writer.drain()
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {":status": lines[0].split(" ")[1]}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return headers

    def _dead(self) -> EngineDeadError:
        return EngineDeadError("the engine has ended: " + self._engine.last_words())

    @staticmethod
    def _error(status: int, data: bytes) -> Exception:
        try:
            error = json.loads(data)["error"]
            message, field = error["message"], error.get("param")
        except (ValueError, KeyError, TypeError):
            message, field = data.decode("utf-8", "replace"), None
        text = f"{field}: {message}" if field and not message.startswith(field) else message
        return ValueError(text) if 400 <= status < 500 else RuntimeError(text)


async def _read_body(reader: Reader, headers: Dict[str, str]) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return b"".join([chunk async for chunk in _chunks(reader)])
    return await reader.readexactly(int(headers.get("content-length", "0")))


async def _chunks(reader: Reader) -> AsyncIterator[bytes]:
    while True:
        line = await reader.readline()
        if not line.endswith(b"\n"):  # readline() returns what there is at the end of the file
            raise asyncio.IncompleteReadError(line, None)
        size = int(line.split(b";")[0], 16)
        data = await reader.readexactly(size + 2)
        if size == 0:
            return
        yield data[:-2]


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    rest = b""
    async for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield line.rstrip(b"\r")
