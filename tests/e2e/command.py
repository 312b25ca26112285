"""The tests of the verbs share these: runs of the binary, plain HTTP, pages."""
import html.parser
import json
import os
import subprocess
import urllib.error
import urllib.request

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
MODEL = os.path.join(ROOT, "assets", "builtin_model")
LLAMA_8B = os.path.join(ROOT, "docs", "examples", "llama-3.1-8b.json")
PROMPT = "Once upon a time"
GREEDY = ("-p", PROMPT, "--max-tokens", "24", "--temperature", "0")


def run(binary, *arguments, **kwargs):
    return subprocess.run([binary, *arguments], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
                          **kwargs)


def ok(binary, *arguments, **kwargs):
    done = run(binary, *arguments, **kwargs)
    assert done.returncode == 0, (arguments, done)
    return done


def refused(binary, said, *arguments):
    """Asserts that the run fails with exit code 1 and one line that holds `said`."""
    done = run(binary, *arguments)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 1, (arguments, done)
    assert len(lines) == 1 and lines[0].startswith("quire: ") and said in lines[0], (arguments, done.stderr)


def generate(binary, *flags):
    """Returns the greedy text after PROMPT."""
    text = ok(binary, "generate", *flags, *GREEDY).stdout
    assert text.startswith(PROMPT) and len(text.strip()) > len(PROMPT) + 20, text
    return text


def read(path, mode="r"):
    with open(path, mode) as file:
        return file.read()


def complete(url, prompt, max_tokens):
    body = json.dumps({"prompt": prompt, "max_tokens": max_tokens, "ignore_eos": True, "temperature": 0}).encode()
    request = urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


class Elements(html.parser.HTMLParser):
    """Counts elements and finds those that are not closed in order."""
    VOID = {"meta", "br", "hr", "img", "link", "input", "col"}

    def __init__(self):
        super().__init__()
        self.open, self.counts, self.wrong = [], {}, []

    def handle_starttag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.counts[tag] = self.counts.get(tag, 0) + 1

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def elements_of(path):
    page = Elements()
    page.feed(read(path))
    page.close()
    assert not page.wrong and not page.open, (page.wrong, page.open)
    return page.counts


def fetch(url, path, body=None, key=None):
    """Returns (status, content type, text)."""
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(url + path, data, headers), timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()
