"""The end-to-end tests share these: the server's address, plain HTTP without the client library, waiting."""
import json
import time
import urllib.error
import urllib.parse
import urllib.request


class Skip(Exception):
    """Is raised if a test does not apply to this server."""


class Context:
    def __init__(self, url, key, pid):
        self.url, self.key, self.pid = url, key, pid
        address = urllib.parse.urlsplit(url)
        self.host, self.port = address.hostname, address.port or 80

    def client(self, **kwargs):
        import openai
        return openai.OpenAI(base_url=self.url + "/v1", api_key=self.key, max_retries=0, **kwargs)

    @property
    def model(self):
        return self.get("/v1/models")["data"][0]["id"]

    def headers(self):
        return {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}

    def request(self, method, path, body=None, timeout=60):
        """Returns (status, headers, text), whatever the status."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, self.headers(), method=method)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read().decode()

    def get(self, path):
        status, _, text = self.request("GET", path)
        assert status == 200, (path, status, text)
        return json.loads(text)

    def post(self, path, body):
        status, _, text = self.request("POST", path, body)
        assert status == 200, (path, status, text)
        return json.loads(text)

    def metric(self, name, **labels):
        """Returns the sum of the samples of `name` that carry `labels`."""
        _, _, text = self.request("GET", "/metrics")
        total = 0.0
        for line in text.splitlines():
            if line.startswith(name + "{") and all(f'{k}="{v}"' in line for k, v in labels.items()):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def wait_ready(self, seconds):
        end = time.time() + seconds
        while time.time() < end:
            try:
                if self.request("GET", "/ready", timeout=5)[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise SystemExit(f"the server at {self.url} is not ready after {seconds} s")

    def wait_idle(self, seconds=60):
        """Waits until nothing runs or waits and no block is in use."""
        end = time.time() + seconds
        while time.time() < end:
            stats = self.get("/quire/stats")
            if stats["running"] == 0 and stats["waiting"] == 0 and stats["kv_blocks_used"] == 0:
                return
            time.sleep(0.05)
        raise AssertionError(f"still busy after {seconds} s: {stats}")

    def rss_mib(self):
        if not self.pid:
            return None
        with open(f"/proc/{self.pid}/status") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return int(line.split()[1]) / 1024
        return None
