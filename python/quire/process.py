"""The engine is a process of its own, which serves over a Unix socket that only this process uses."""
from __future__ import annotations

import collections
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Deque, Dict, List, Optional

from quire.binary import find_binary

# Keyword arguments of vLLM that have no effect, because the engine contains no Python code.
_WITHOUT_EFFECT = ("trust_remote_code", "tokenizer_mode", "skip_tokenizer_init", "disable_log_stats", "runner",
                   "task", "convert", "hf_token", "hf_overrides", "revision", "download_dir", "swap_space",
                   "cpu_offload_gb", "disable_custom_all_reduce", "use_tqdm_on_load")


def to_flags(arguments: Dict[str, Any]) -> List[str]:
    """Returns keyword arguments as flags of `quire serve`: max_model_len=8 is --max-model-len 8."""
    flags: List[str] = []
    for name, value in arguments.items():
        flag = "--" + name.replace("_", "-")
        if value is None or name in _WITHOUT_EFFECT:
            continue
        if isinstance(value, bool):
            if value:
                flags.append(flag)
            elif name not in ("enforce_eager", "enable_lora"):
                flags.append("--no-" + flag[2:])
        elif isinstance(value, (dict, list)):
            flags += [flag, json.dumps(value)]
        else:
            flags += [flag, str(value)]
    return flags


def _environment() -> Dict[str, str]:
    """Returns the environment without the variables that would make the engine ask this process for a key."""
    return {name: value for name, value in os.environ.items() if name not in ("QUIRE_API_KEY", "VLLM_API_KEY")}


class EngineProcess:
    """Starts the engine, waits until it serves, and ends it. It also ends when this process does."""

    def __init__(self, model: str, arguments: Dict[str, Any], binary: Optional[str] = None,
                 show_log: bool = False) -> None:
        self._folder = tempfile.mkdtemp(prefix="quire-")
        self.socket_path = os.path.join(self._folder, "engine.sock")
        self._last_lines: Deque[str] = collections.deque(maxlen=40)
        command = [binary or find_binary(), "serve", *([model] if model else []), "--uds", self.socket_path,
                   "--exit-with-process", str(os.getpid()), "--shutdown-timeout", "0", "--no-web-page",
                   "--trust-request-chat-template", "--enable-dev-endpoints",
                   "--enable-prompt-tokens-details", "--tool-call-parser", "none", "--reasoning-parser", "none",
                   "--max-logprobs", "-1", *to_flags(arguments)]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                             stderr=subprocess.STDOUT, text=True, errors="replace",
                                             start_new_session=True, env=_environment())
        except OSError:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise
        self._log = threading.Thread(target=self._read_log, args=(show_log,), daemon=True)
        self._log.start()
        self._wait_until_it_serves()

    def _read_log(self, show_log: bool) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._last_lines.append(line)
            if show_log:
                sys.stderr.write(line)

    def _wait_until_it_serves(self) -> None:
        try:
            while not self._accepts():
                if self._process.poll() is not None:
                    self._log.join(5)
                    raise ValueError("the engine did not start: " + self.last_words())
                time.sleep(0.01)
        except BaseException:
            self.stop()
            raise

    def _accepts(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(self.socket_path) == 0

    @property
    def pid(self) -> int:
        return self._process.pid

    def running(self) -> bool:
        return self._process.poll() is None

    def last_words(self) -> str:
        """The last lines that the engine printed."""
        return "".join(self._last_lines).strip()

    def stop(self) -> None:
        """Ends the engine at once; running answers are lost. May be called again."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

