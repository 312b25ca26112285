"""A program on a pseudo-terminal, for tests: keys go in, what the screen would get comes out."""
import fcntl
import os
import pty
import re
import select
import subprocess
import termios
import time

# Colours, cursor movements and modes are not part of the text.
CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")


class Terminal:
    def __init__(self, *command, **kwargs):
        self.keys, child = pty.openpty()
        termios.tcsetwinsize(child, (40, 200))

        def control():  # makes the terminal the child's, so that Ctrl-C reaches it as a signal
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        environment = {**os.environ, "TERM": "xterm", "INPUTRC": "/dev/null"}
        self.process = subprocess.Popen(command, stdin=child, stdout=child, stderr=child, preexec_fn=control,
                                        env=environment, **kwargs)
        os.close(child)
        self.raw = ""  # all output
        self.seen = 0  # the length of text() that expect() has passed

    def text(self):
        return CONTROL.sub("", self.raw)

    def _read(self, seconds):
        """Reads the output that is ready; returns False at its end."""
        if not select.select([self.keys], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.keys, 65536)
        except OSError:  # on Linux, this is the end of a terminal's output
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)

    def expect(self, pattern, seconds=60):
        """Waits for `pattern` behind the last match, and returns the match."""
        end = time.time() + seconds
        while True:
            found = re.compile(pattern).search(self.text(), self.seen)
            if found:
                self.seen = found.end()
                return found
            assert time.time() < end, f"no {pattern!r} in {self.text()[self.seen:]!r}"
            open_still = self._read(0.1)
            assert open_still or re.compile(pattern).search(self.text(), self.seen), \
                f"the program ended without {pattern!r}: {self.text()!r}"

    def until(self, condition, seconds=60):
        """Reads until `condition` holds."""
        end = time.time() + seconds
        while not condition():
            assert time.time() < end and self._read(0.1), self.raw

    def send(self, keys):
        data = keys.encode()
        while data:  # a terminal accepts at most 4 KB at a time
            data = data[os.write(self.keys, data[:1024]):]
            self._read(0)

    def wait(self, seconds=30):
        """Returns the exit code."""
        end = time.time() + seconds
        while self._read(0.1) and time.time() < end:
            pass
        return self.process.wait(timeout=max(1, end - time.time()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.keys)
