"""Spans and metrics reach a collector by OTLP over HTTP, and none that fails or hangs harms a request."""
import contextlib
import http.server
import json
import threading
import time

import harness
from process import Server

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CHAT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "temperature": 0}


class Collector(http.server.ThreadingHTTPServer):
    """Keeps what comes; answers with `status` after `delay_s`."""
    daemon_threads = True

    def __init__(self, status=200, delay_s=0):
        self.status, self.delay_s, self.bodies = status, delay_s, []
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def spans(self):
        return [span for path, body in self.bodies if path == "/v1/traces" for resource in body["resourceSpans"]
                for scope in resource["scopeSpans"] for span in scope["spans"]]

    def metrics(self):
        return {metric["name"]: metric for path, body in self.bodies if path == "/v1/metrics"
                for resource in body["resourceMetrics"] for scope in resource["scopeMetrics"]
                for metric in scope["metrics"]}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        assert self.headers["Content-Type"] == "application/json"
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        time.sleep(self.server.delay_s)
        self.server.bodies.append((self.path, body))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def collecting(**kwargs):
    collector = Collector(**kwargs)
    try:
        yield collector
    finally:
        collector.shutdown()


def wait_for(condition, seconds=20):
    end = time.time() + seconds
    while not condition():
        assert time.time() < end, "waited in vain"
        time.sleep(0.02)


def attributes(span):
    return {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}


def ask(context, **headers):
    import urllib.request
    request = urllib.request.Request(context.url + "/v1/chat/completions", json.dumps(CHAT).encode(),
                                     {**context.headers(), **headers})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def test_spans_have_vllms_names_and_the_clients_trace(binary):
    with collecting() as collector, Server(binary, "--hardware", "none", "--otlp-traces-endpoint", collector.url) as server:
        context = harness.Context(server.url, "none", None)
        answer = ask(context, traceparent=f"00-{TRACE}-{PARENT}-01")
        wait_for(lambda: collector.spans())
        span = collector.spans()[0]
        assert (span["traceId"], span["parentSpanId"], span["name"], span["kind"]) == (TRACE, PARENT, "llm_request", 2)
        said = attributes(span)
        usage = answer["usage"]
        assert said["gen_ai.usage.prompt_tokens"] == str(usage["prompt_tokens"]), said
        assert said["gen_ai.usage.completion_tokens"] == str(usage["completion_tokens"]), said
        assert said["gen_ai.request.id"] == answer["id"] and said["gen_ai.response.model"] == answer["model"]
        assert said["gen_ai.request.max_tokens"] == "8" and said["gen_ai.request.temperature"] == 0
        assert 0 < said["gen_ai.latency.time_to_first_token"] <= said["gen_ai.latency.e2e"] < 30, said
        took_s = (int(span["endTimeUnixNano"]) - int(span["startTimeUnixNano"])) * 1e-9
        assert said["gen_ai.latency.e2e"] - 0.01 <= took_s < 30 and abs(int(span["endTimeUnixNano"]) * 1e-9 - time.time()) < 30
        ask(context, traceparent=f"00-{TRACE}-{PARENT}-00")  # the client does not want it
        ask(context, traceparent="nonsense")
        wait_for(lambda: len(collector.spans()) == 2)
        assert collector.spans()[1]["traceId"] != TRACE and "parentSpanId" not in collector.spans()[1]
        assert context.metric("quire:otlp_spans_sent_total") == 0  # it has no labels
        assert "quire:otlp_spans_sent_total 2.0" in context.request("GET", "/metrics")[2]


def test_route_passes_the_trace_on(binary):
    with collecting() as collector, Server(binary, "--hardware", "none", "--otlp-traces-endpoint", collector.url) as server:
        with Server(binary, "--backend", server.url, verb="route") as route:
            ask(harness.Context(route.url, "none", None), traceparent=f"00-{TRACE}-{PARENT}-01")
            wait_for(lambda: collector.spans())
            assert collector.spans()[0]["traceId"] == TRACE


def test_metrics_are_what_the_page_says(binary):
    with collecting() as collector, Server(binary, "--hardware", "none", "--otlp-metrics-endpoint", collector.url + "/v1/metrics",
                                           "--otlp-metrics-interval-ms", "200", "--otlp-service-name", "mine") as server:
        context = harness.Context(server.url, "none", None)
        ask(context)
        wait_for(lambda: "vllm:generation_tokens_total" in collector.metrics() and
                 collector.metrics()["vllm:generation_tokens_total"]["sum"]["dataPoints"][0]["asDouble"] > 0)
        metrics = collector.metrics()
        assert metrics["vllm:generation_tokens_total"]["sum"]["dataPoints"][0]["asDouble"] == \
            context.metric("vllm:generation_tokens_total")
        point = metrics["vllm:time_to_first_token_seconds"]["histogram"]["dataPoints"][0]
        assert point["count"] == "1" and len(point["bucketCounts"]) == len(point["explicitBounds"]) + 1
        assert "mine" in json.dumps(collector.bodies[0][1]["resourceMetrics"][0]["resource"])


def test_a_collector_that_fails_or_hangs_harms_nobody(binary):
    for kwargs in ({"status": 503}, {"delay_s": 60}):
        with collecting(**kwargs) as collector, \
                Server(binary, "--hardware", "none", "--otlp-traces-endpoint", collector.url) as server:
            context = harness.Context(server.url, "none", None)
            begin = time.time()
            for _ in range(5):
                ask(context)
            assert time.time() - begin < 15
    with Server(binary, "--hardware", "none", "--otlp-traces-endpoint", "http://127.0.0.1:9") as server:
        context = harness.Context(server.url, "none", None)
        ask(context)
        wait_for(lambda: "quire:otlp_spans_dropped_total 1.0" in context.request("GET", "/metrics")[2])
        assert "spans are dropped until it answers" in server.output()
    try:
        Server(binary, "--otlp-traces-endpoint", "grpc://127.0.0.1:4317")
    except RuntimeError as refusal:
        assert "--otlp-traces-endpoint: expected http://HOST[:PORT][/PATH]" in str(refusal), refusal
    else:
        raise AssertionError("a wrong endpoint was taken")
