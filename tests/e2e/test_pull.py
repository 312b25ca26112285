"""`quire pull` gets models from servers that cut, lie, stall and redirect, and nothing but what its checksums say lands."""
import contextlib
import hashlib
import http.server
import json
import os
import signal
import ssl
import subprocess
import tempfile
import threading
import time

import command
import harness
from process import Server
from test_tls import Certificates

WEIGHTS = b"GGUF" + bytes(range(256)) * 4096  # a megabyte


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Host(http.server.ThreadingHTTPServer):
    """Serves `files` (path: bytes) with ranges and tags. Each entry of `tricks` (path: list) changes one answer."""
    daemon_threads = True

    def __init__(self, files, tls=None):
        self.files, self.tricks, self.asked, self.tags = dict(files), {}, [], {}
        super().__init__(("127.0.0.1", 0), Handler)
        scheme = "http"
        if tls is not None:
            scheme, context = "https", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.path("server.pem"), tls.path("server.key"))
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = f"{scheme}://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass  # clients that disconnect

    def ranges(self, path):
        return [headers.get("Range") for method, asked, headers in self.asked if (method, asked) == ("GET", path)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.answer(with_body=False)

    def do_GET(self):
        self.answer(with_body=True)

    def answer(self, with_body):
        server, path = self.server, self.path
        server.asked.append((self.command, path, dict(self.headers)))
        tricks = server.tricks.get(path, [])
        trick = (tricks.pop(0) if with_body else None) if tricks and not tricks[0].get("always") else (tricks or [None])[0]
        trick = trick or {}
        if "redirect" in trick:
            return self.head(302, {"Location": trick["redirect"], "Content-Length": "0"})
        if "status" in trick:
            return self.head(trick["status"], {"Content-Length": "0"})
        if path not in server.files:
            return self.head(404, {"Content-Length": "0"})
        data, status, headers = server.files[path], 200, {}
        tag = server.tags.get(path, f'"{sha256(data)[:8]}"')
        if tag:
            headers["ETag"] = tag
        first = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").removesuffix("-")
        same = self.headers.get("If-Range", tag) == tag
        if first != "0" and same:
            if int(first) >= len(data):
                return self.head(416, {"Content-Range": f"bytes */{len(data)}", "Content-Length": "0"})
            status, headers["Content-Range"] = 206, f"bytes {first}-{len(data) - 1}/{len(data)}"
            data = data[int(first):]
        headers["Content-Length"] = str(trick.get("length", len(data)))
        self.head(status, headers)
        if not with_body:
            return None
        if "slowly" in trick:
            for at in range(0, len(data), trick["slowly"]):
                self.wfile.write(data[at:at + trick["slowly"]])
                time.sleep(0.05)
            return None
        self.wfile.write(data[:trick.get("cut", len(data))])
        self.wfile.flush()
        time.sleep(trick.get("stall", 0))
        self.close_connection = "cut" in trick or "length" in trick
        return None

    def head(self, status, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory() as path:
        yield path


def pull(binary, to, source, *flags):
    return command.run(binary, "pull", source, "--to", to, *flags)


def refused(binary, to, said, source, *flags):
    done = pull(binary, to, source, *flags)
    assert done.returncode == 1 and said in done.stderr.splitlines()[-1], (source, flags, done)
    return done


def folder_of(files, prefix="/small/"):
    listed = "".join(f"{sha256(data)}  {name}\n" for name, data in files.items())
    return {**{prefix + name: data for name, data in files.items()}, prefix + "SHA256SUMS": listed.encode()}


def builtin():
    return {name: command.read(os.path.join(command.MODEL, name), "rb") for name in sorted(os.listdir(command.MODEL))}


def test_pull_a_folder_and_serve_it(binary):
    with folder() as to, Host(folder_of(builtin())) as host:
        done = pull(binary, to, host.url + "/small/", "--json")
        assert done.returncode == 0, done
        said = json.loads(done.stdout)
        assert said["name"] == "small" and not said["was_there"] and said["path"] == to + "/small", said
        assert {file["name"]: file["sha256"] for file in said["files"]} == \
            {name: sha256(data) for name, data in builtin().items()}
        assert "pulling 100 %" in done.stderr, done.stderr
        assert sorted(os.listdir(to)) == ["small"]
        with Server(binary, "--models-dir", to, "--hardware", "none") as server:
            context = harness.Context(server.url, "none", None)
            assert context.post("/v1/completions", {"model": "small", "prompt": "Once", "max_tokens": 4})["choices"]
        again = pull(binary, to, host.url + "/small/")
        assert again.returncode == 0 and "were already there" in again.stdout, again
        sums = sha256(host.files["/small/SHA256SUMS"])
        assert pull(binary, to, host.url + "/small/", "--sha256", sums, "--name", "pinned").returncode == 0
        refused(binary, to, "SHA256SUMS of", host.url + "/small/", "--sha256", "0" * 64, "--name", "other")


def test_pull_goes_on_after_a_cut(binary):
    with folder() as to, Host({"/m.gguf": WEIGHTS}) as host:
        host.tricks["/m.gguf"] = [{"cut": 300_000}, {"status": 503}, {"cut": 200_000}, {}]
        done = pull(binary, to, host.url + "/m.gguf", "--sha256", sha256(WEIGHTS))
        assert done.returncode == 0, done
        assert command.read(to + "/m.gguf", "rb") == WEIGHTS and os.listdir(to) == ["m.gguf"]
        assert host.ranges("/m.gguf") == [None, "bytes=300000-", "bytes=300000-", "bytes=500000-"], host.asked
        assert "closed before the answer was whole; trying again" in done.stderr, done.stderr


def test_pull_goes_on_in_another_run_and_after_ctrl_c(binary):
    with folder() as to, Host({"/m.gguf": WEIGHTS}) as host:
        host.tricks["/m.gguf"] = [{"cut": 300_000}]
        refused(binary, to, "closed before", host.url + "/m.gguf", "--sha256", sha256(WEIGHTS),
                "--retries", "0")
        assert os.listdir(to) == [".m.pull"]
        host.tricks["/m.gguf"] = [{"cut": 100_000, "stall": 60}]
        with subprocess.Popen([binary, "pull", host.url + "/m.gguf", "--to", to, "--sha256", sha256(WEIGHTS)],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            end = time.time() + 20
            while len(host.ranges("/m.gguf")) < 2 and time.time() < end:
                time.sleep(0.02)
            time.sleep(0.5)  # until some bytes have arrived
            busy = pull(binary, to, host.url + "/m.gguf", "--sha256", sha256(WEIGHTS))
            assert busy.returncode == 1 and "another process is pulling m now" in busy.stderr, busy
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=20)
        assert process.returncode == 130 and "run the same command to continue" in said, said
        host.tricks.clear()
        assert pull(binary, to, host.url + "/m.gguf", "--sha256", sha256(WEIGHTS)).returncode == 0
        assert host.ranges("/m.gguf") == [None, "bytes=300000-", "bytes=400000-"], host.asked
        assert command.read(to + "/m.gguf", "rb") == WEIGHTS


def test_pull_begins_anew_when_the_file_has_changed(binary):
    changed = b"GGUF" + b"x" * 50_000
    for tag in (None, ""):  # with a tag, which shows a change, and without one, where the checksum does
        with folder() as to, Host({"/m.gguf": WEIGHTS}) as host:
            if tag is not None:
                host.tags["/m.gguf"] = tag
            host.tricks["/m.gguf"] = [{"cut": 30_000}]
            refused(binary, to, "closed before", host.url + "/m.gguf", "--sha256", sha256(changed), "--retries", "0")
            host.files["/m.gguf"] = changed
            first = pull(binary, to, host.url + "/m.gguf", "--sha256", sha256(changed))
            if tag is not None:
                assert first.returncode == 1 and "what came was deleted" in first.stderr, first
                first = pull(binary, to, host.url + "/m.gguf", "--sha256", sha256(changed))
            assert first.returncode == 0 and command.read(to + "/m.gguf", "rb") == changed, first


def test_pull_refuses_what_its_checksum_is_not(binary):
    with folder() as to, Host({"/m.gguf": WEIGHTS, **folder_of({"config.json": b"{}", "w.safetensors": b"w"})}) as host:
        refused(binary, to, "what came was deleted", host.url + "/m.gguf", "--sha256", "0" * 64)
        refused(binary, to, "--no-checksum", host.url + "/m.gguf")
        refused(binary, to, "64 hex digits", host.url + "/m.gguf", "--sha256", "12")
        host.files["/small/w.safetensors"] = b"v"
        refused(binary, to, "what came was deleted", host.url + "/small/")
        assert os.listdir(to) == [".small.pull"]  # it also contains config.json, which is complete
        host.files["/small/w.safetensors"] = b"w"
        assert pull(binary, to, host.url + "/small/").returncode == 0
        assert len(host.ranges("/small/config.json")) == 1
        host.files["/page.gguf"] = b"<html>please log in</html>"
        refused(binary, to, "expected a GGUF file", host.url + "/page.gguf", "--no-checksum")
        assert pull(binary, to, host.url + "/m.gguf", "--no-checksum").returncode == 0
        assert sorted(os.listdir(to)) == ["m.gguf", "small"]


def test_pull_stays_in_its_folder(binary):
    with folder() as to, Host({}) as host:
        for name in ("../escaped", "a/../../escaped", "/escaped", "..", "a\\..\\escaped", "x\x01y"):
            host.files["/small/SHA256SUMS"] = f"{'0' * 64}  config.json\n{'0' * 64}  {name}\n".encode()
            refused(binary, to, "expected the path of a file within its folder", host.url + "/small/")
        refused(binary, to, "expected a name of at most", host.url + "/m.gguf", "--no-checksum", "--name", "../up")
        refused(binary, to, "archives are not unpacked", host.url + "/m.tar.gz", "--no-checksum")
        refused(binary, to, "with / at its end", host.url + "/small", "--no-checksum")
        assert os.listdir(to) == []


def test_pull_follows_a_few_redirects(binary):
    with folder() as to, Host({"/there/m.gguf": WEIGHTS}) as host:
        host.tricks["/m.gguf"] = [{"redirect": "/there/x/../m.gguf", "always": True}]
        assert pull(binary, to, host.url + "/m.gguf", "--sha256", sha256(WEIGHTS)).returncode == 0
        host.tricks["/loop.gguf"] = [{"redirect": "/loop.gguf", "always": True}]
        refused(binary, to, "expected at most 5 redirects, got more", host.url + "/loop.gguf", "--no-checksum")
        assert len(host.ranges("/loop.gguf")) == 6
        host.tricks["/file.gguf"] = [{"redirect": "file:///etc/passwd", "always": True}]
        refused(binary, to, "expected http://", host.url + "/file.gguf", "--no-checksum")


def test_pull_from_servers_that_lie_about_lengths(binary):
    with folder() as to, Host({"/m.gguf": WEIGHTS}) as host:
        flags = ("--sha256", sha256(WEIGHTS))
        host.tricks["/m.gguf"] = [{"length": 1 << 61}]
        refused(binary, to, "of free disk", host.url + "/m.gguf", *flags)
        host.tricks["/m.gguf"] = [{"length": 1000}]
        refused(binary, to, "what came was deleted", host.url + "/m.gguf", *flags)
        host.tricks["/m.gguf"] = [{"length": len(WEIGHTS) + 5}]  # the promised end never comes, because there are no more bytes
        assert pull(binary, to, host.url + "/m.gguf", *flags).returncode == 0
        assert command.read(to + "/m.gguf", "rb") == WEIGHTS


def test_pull_waits_for_slow_servers_and_leaves_those_that_hang(binary):
    small = b"GGUF" + b"y" * 2000
    with folder() as to, Host({"/slow.gguf": small, "/hangs.gguf": WEIGHTS}) as host:
        host.tricks["/slow.gguf"] = [{"slowly": 100}]
        flags = ("--read-timeout", "1", "--connect-timeout", "5")
        assert pull(binary, to, host.url + "/slow.gguf", "--sha256", sha256(small), *flags).returncode == 0
        assert len(host.ranges("/slow.gguf")) == 1
        host.tricks["/hangs.gguf"] = [{"cut": 70_000, "stall": 30}]
        done = pull(binary, to, host.url + "/hangs.gguf", "--sha256", sha256(WEIGHTS), *flags)
        assert done.returncode == 0 and "no answer within 1000 ms" in done.stderr, done
        assert host.ranges("/hangs.gguf") == [None, "bytes=70000-"]
    with folder() as to:
        refused(binary, to, "127.0.0.1:9: Connection refused", "http://127.0.0.1:9/m.gguf", "--no-checksum", "--retries", "1")


def test_pull_believes_only_certificates_of_authorities(binary):
    with folder() as to, folder() as keys:
        certificates = Certificates(keys)
        with Host({"/m.gguf": WEIGHTS}, tls=certificates) as host:
            flags = ("--sha256", sha256(WEIGHTS), "--retries", "0")
            refused(binary, to, "its certificate is not believed", host.url + "/m.gguf", *flags)
            refused(binary, to, "its certificate is not believed", host.url.replace("127.0.0.1", "localhost") + "/m.gguf",
                    *flags, "--ca-file", certificates.path("ca.pem"))  # the certificate of another authority
            refused(binary, to, "as PEM", host.url + "/m.gguf", *flags, "--ca-file", command.MODEL + "/config.json")
            with Host({"/m.gguf": WEIGHTS}) as plain:
                host.tricks["/to-http.gguf"] = [{"redirect": plain.url + "/m.gguf", "always": True}]
                refused(binary, to, "expected a redirect to https", host.url + "/to-http.gguf", *flags,
                        "--ca-file", certificates.path("ca.pem"))
            assert pull(binary, to, host.url + "/m.gguf", *flags, "--ca-file", certificates.path("ca.pem")).returncode == 0


def test_pull_from_paths_and_file_urls(binary):
    with folder() as to, folder() as place:
        done = pull(binary, to, command.MODEL, "--name", "copy")
        assert done.returncode == 0 and "quire serve" in done.stdout, done
        with open(place + "/m.gguf", "wb") as file:
            file.write(WEIGHTS)
        refused(binary, to, "--no-checksum", f"file://{place}/m.gguf")
        with open(place + "/sums", "w") as file:
            file.write(f"{sha256(WEIGHTS)}  m.gguf\n")
        assert pull(binary, to, f"file://{place}/m.gguf", "--checksums", place + "/sums").returncode == 0
        assert sorted(os.listdir(to)) == ["copy", "m.gguf"]
        refused(binary, to, "there is no such folder or file", "some/model")
