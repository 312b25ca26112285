"""Encrypted connections: https, certificates of clients, new certificates without a restart."""
import concurrent.futures
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import tempfile
import time

from process import Server


class Certificates:
    """A certificate authority, and files in `folder` as the flags require them."""

    def __init__(self, folder):
        import trustme
        self.authority, self.folder = trustme.CA(), folder
        self.issue("server")
        self.authority.cert_pem.write_to_path(self.path("ca.pem"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def issue(self, name):
        """Replaces the certificate for 127.0.0.1 and its key under this name by new ones."""
        issued = self.authority.issue_cert("127.0.0.1")
        chain = b"".join(blob.bytes() for blob in issued.cert_chain_pems)
        for file, data in ((f"{name}.pem", chain), (f"{name}.key", issued.private_key_pem.bytes())):
            with open(self.path(file), "wb") as out:
                out.write(data)

    def flags(self):
        return "--ssl-certfile", self.path("server.pem"), "--ssl-keyfile", self.path("server.key")

    def context(self, client=None):
        context = ssl.create_default_context(cafile=self.path("ca.pem"))
        if client:
            context.load_cert_chain(self.path(f"{client}.pem"), self.path(f"{client}.key"))
        return context


def get(server, context, path="/v1/models", connection=None):
    connection = connection or http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=30)
    connection.request("GET", path)
    answer = connection.getresponse()
    return answer.status, answer.read(), connection


def complete(server, context, stream, tokens=24):
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=60)
    body = {"prompt": "Once upon a time", "max_tokens": tokens, "temperature": 0, "stream": stream}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read().decode()
    assert answer.status == 200, text
    if not stream:
        return json.loads(text)["choices"][0]["text"]
    events = [line[6:] for line in text.splitlines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    return "".join(json.loads(event)["choices"][0]["text"] for event in events[:-1])


def serial(server, context):
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw:
        with context.wrap_socket(raw, server_hostname="127.0.0.1") as encrypted:
            return encrypted.getpeercert()["serialNumber"]


def test_https(binary):
    with tempfile.TemporaryDirectory() as folder:
        certificates = Certificates(folder)
        with Server(binary, "--hardware", "none", *certificates.flags()) as server:
            assert server.url.startswith("https://"), server.url
            context = certificates.context()
            status, _, connection = get(server, context)
            assert status == 200 and get(server, context, connection=connection)[0] == 200  # the connection is kept alive
            whole = complete(server, context, stream=False)
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                streams = list(pool.map(lambda _: complete(server, context, stream=True), range(16)))
            assert set(streams) == {whole}
            # Sends a body of many TLS records, and receives an answer of more than one.
            connection.request("POST", "/tokenize", json.dumps({"prompt": "word " * 100_000}),
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read().decode()
            assert answer.status == 200 and json.loads(text)["count"] > 100_000, text[:300]
            with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw:
                with context.wrap_socket(raw, server_hostname="127.0.0.1") as encrypted:
                    assert encrypted.version() in ("TLSv1.2", "TLSv1.3")
                    encrypted.sendall(b"GET /live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                    received = b""
                    while piece := encrypted.recv(4096):  # raises if the end is not announced
                        received += piece
                    assert received.startswith(b"HTTP/1.1 200"), received


def test_who_speaks_something_else_is_told(binary):
    with tempfile.TemporaryDirectory() as folder:
        certificates = Certificates(folder)
        with Server(binary, "--hardware", "none", *certificates.flags()) as server:
            plain = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
            plain.request("GET", "/v1/models")
            answer = plain.getresponse()
            assert answer.status == 400 and "expected https, got http" in answer.read().decode()
            for noise in (b"\x16\x03\x01\x00\x05hello", b"\x00" * 100, b"\x16"):
                with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw:
                    raw.sendall(noise)
                    if len(noise) > 1:
                        while raw.recv(4096):
                            pass
            old = certificates.context()
            old.maximum_version = ssl.TLSVersion.TLSv1_1
            old.set_ciphers("DEFAULT@SECLEVEL=0")
            try:
                get(server, old)
                raise AssertionError("TLS 1.1 was taken")
            except (ssl.SSLError, ConnectionError):
                pass
            assert get(server, certificates.context())[0] == 200


def test_certificates_of_clients(binary):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as elsewhere:
        certificates = Certificates(folder)
        certificates.issue("client")
        stranger = Certificates(elsewhere)
        ask = "--ssl-ca-certs", certificates.path("ca.pem"), "--ssl-cert-reqs"
        for level in ("1", "2"):
            with Server(binary, "--hardware", "none", *certificates.flags(), *ask, level) as server:
                assert get(server, certificates.context("client"))[0] == 200
                unknown = certificates.context()
                unknown.load_cert_chain(stranger.path("server.pem"), stranger.path("server.key"))
                refused = [unknown] + ([certificates.context()] if level == "2" else [])
                for context in refused:
                    try:
                        get(server, context)
                        raise AssertionError(f"level {level}: a client was let in")
                    except (ssl.SSLError, ConnectionError, http.client.RemoteDisconnected):
                        pass
                if level == "1":
                    assert get(server, certificates.context())[0] == 200


def test_new_certificates_without_a_restart(binary):
    with tempfile.TemporaryDirectory() as folder:
        certificates = Certificates(folder)
        with Server(binary, "--hardware", "none", *certificates.flags()) as server:
            context = certificates.context()
            first = serial(server, context)
            certificates.issue("server")
            server.process.send_signal(signal.SIGHUP)
            end = time.time() + 10
            while serial(server, context) == first:
                assert time.time() < end, "the new certificate is not shown"
                time.sleep(0.05)
            second = serial(server, context)
            with open(certificates.path("server.key"), "w") as file:
                file.write("no key")
            server.process.send_signal(signal.SIGHUP)
            while "the old content stays in use" not in server.output():
                assert time.time() < end + 10
                time.sleep(0.05)
            assert serial(server, context) == second and get(server, context)[0] == 200


def test_what_cannot_be_served_is_refused_at_the_start(binary):
    with tempfile.TemporaryDirectory() as folder:
        certificates = Certificates(folder)
        certificates.issue("other")
        cert, key = certificates.path("server.pem"), certificates.path("server.key")
        for flags, want in ((("--ssl-certfile", cert), "--ssl-keyfile: expected a file"),
                            (("--ssl-keyfile", key), "--ssl-certfile: expected a file"),
                            (("--ssl-certfile", key, "--ssl-keyfile", key), f"--ssl-certfile {key}: expected"),
                            (("--ssl-certfile", cert, "--ssl-keyfile", certificates.path("other.key")),
                             "expected the certificate's private key"),
                            (("--ssl-certfile", "/no/file", "--ssl-keyfile", key), "--ssl-certfile /no/file"),
                            (("--ssl-certfile", cert, "--ssl-keyfile", key, "--ssl-cert-reqs", "2"),
                             "--ssl-ca-certs: expected a file"),
                            (("--ssl-certfile", cert, "--ssl-keyfile", key, "--ssl-ca-certs", cert),
                             "expected --ssl-cert-reqs 1 or 2"),
                            (("--ssl-certfile", cert, "--ssl-keyfile", key, "--uds", certificates.path("s")),
                             "expected a port, got --uds")):
            done = subprocess.run([binary, "serve", "--port", "0", *flags], capture_output=True, text=True, timeout=60)
            assert done.returncode == 1 and want in done.stderr, (flags, done.stderr)


def test_a_router_speaks_https(binary):
    with tempfile.TemporaryDirectory() as folder:
        certificates = Certificates(folder)
        with Server(binary, "--hardware", "none") as server:
            with Server(binary, "--backend", server.url, *certificates.flags(), verb="route") as router:
                assert complete(router, certificates.context(), stream=True) == complete_plainly(server)


def complete_plainly(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    body = {"prompt": "Once upon a time", "max_tokens": 24, "temperature": 0}
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    return json.loads(connection.getresponse().read())["choices"][0]["text"]
