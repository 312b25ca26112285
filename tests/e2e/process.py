"""Starts a `quire serve` process for tests on a free port, watches and stops it."""
import re
import signal
import subprocess
import tempfile
import time


class Server:
    def __init__(self, binary, *flags, verb="serve", environment=None):
        """Starts the program; `verb` is None for a program that only serves."""
        self.log = tempfile.TemporaryFile("w+")
        command = [binary, verb, "--port", "0", *flags] if verb else [binary, *flags]
        self.process = subprocess.Popen(command, stdout=self.log, stderr=self.log, env=environment)
        self.url = self._wait_for_url(60)
        self.port = int(self.url.rsplit(":", 1)[1])

    def output(self):
        self.log.seek(0)
        return self.log.read()

    def _wait_for_url(self, seconds):
        end = time.time() + seconds
        while time.time() < end:
            found = re.search(r"https?://[\d.]+:\d+", self.output())
            if found:
                return found.group(0)
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        self.process.kill()
        raise RuntimeError(f"the server did not start:\n{self.output()}")

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self, seconds=60):
        return self.process.wait(timeout=seconds)

    def stop(self):
        if self.process.poll() is None:
            self.terminate()
            try:
                self.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise
            # A sanitizer that found something changes the exit code.
            if self.process.returncode != 0:
                raise RuntimeError(f"the server ended with code {self.process.returncode}:\n{self.output()}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
