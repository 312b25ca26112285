"""The dashboard for Grafana asks for metrics that there are."""
import json
import os
import re
import tempfile
import urllib.request

from process import Server

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def test_dashboard_shows_what_there_is(binary):
    """Every metric in packaging/grafana/quire.json exists in /metrics."""
    dashboard = os.path.join(ROOT, "packaging", "grafana", "quire.json")
    with open(dashboard) as file:
        panels = json.load(file)["panels"]
    expressions = [target["expr"] for panel in panels for target in panel["targets"]]
    used = {name for text in expressions for name in re.findall(r"(?:vllm|quire):[a-z_]+", text)}
    assert len(panels) == 12 and len(used) > 15, used
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "keys.json")
        with open(path, "w") as file:
            json.dump({"keys": [{"name": "a", "key": "ka"}]}, file)
        with Server(binary, "--hardware", "none", "--api-key-file", path, "--no-guard-metrics") as server:
            with urllib.request.urlopen(server.url + "/metrics", timeout=30) as answer:
                there = set(re.findall(r"^# TYPE (\S+)", answer.read().decode(), re.MULTILINE))
    missing = {name for name in used if name not in there and name.removesuffix("_bucket") not in there}
    assert not missing, missing
