"""Texts of single tokens, fetched when they are first used."""
from __future__ import annotations

import http.client
import json
import socket
from typing import Dict


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("quire")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(self._path)


class TokenTexts:
    """Returns the text of a token. Any thread may call it; the first call for a token waits for the
    engine."""

    def __init__(self, socket_path: str) -> None:
        self._socket_path = socket_path
        self._texts: Dict[int, str] = {}

    def __call__(self, token_id: int) -> str:
        if token_id not in self._texts:
            connection = _UnixConnection(self._socket_path)
            try:
                connection.request("POST", "/detokenize", json.dumps({"tokens": [token_id]}),
                                   {"Content-Type": "application/json"})
                self._texts[token_id] = json.loads(connection.getresponse().read())["prompt"]
            finally:
                connection.close()
        return self._texts[token_id]
