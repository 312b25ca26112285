"""Spans and metrics reach a collector by OTLP over HTTP, and none that fails or hangs harms a request."""
import contextlib
import http.server
import json
import os
import ssl
import tempfile
import threading
import time

import harness
from process import Server
from test_embeddings import GOLDENS, golden
from test_tls import Certificates

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CHAT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 8, "temperature": 0}


class Collector(http.server.ThreadingHTTPServer):
    """Stores what it receives, and answers with `status` after `delay_s`."""
    daemon_threads = True

    def __init__(self, status=200, delay_s=0, tls=None):
        self.status, self.delay_s, self.bodies, self.headers = status, delay_s, [], []
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.path("server.pem"), tls.path("server.key"))
            self.socket = context.wrap_socket(self.socket, server_side=True)
            self.url = self.url.replace("http:", "https:")
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
        self.server.headers.append(dict(self.headers))
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
        before_ns = time.time_ns()
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
        start_ns, end_ns = int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])
        assert before_ns <= start_ns < end_ns <= time.time_ns(), span
        first_s, whole_s = said["gen_ai.latency.time_to_first_token"], said["gen_ai.latency.e2e"]
        assert 0 < first_s <= whole_s <= (end_ns - start_ns) * 1e-9 + 0.01, (said, start_ns, end_ns)
        ask(context, traceparent=f"00-{TRACE}-{PARENT}-00")  # the client asks for no spans
        ask(context, traceparent="nonsense")
        wait_for(lambda: len(collector.spans()) == 2)
        assert collector.spans()[1]["traceId"] != TRACE and "parentSpanId" not in collector.spans()[1]
        assert context.metric("quire:otlp_spans_sent_total") == 0  # it has no labels
        # A span counts as sent when its answer has arrived, which is after the collector received
        # it.
        wait_for(lambda: "quire:otlp_spans_sent_total 2.0" in context.request("GET", "/metrics")[2])


def test_route_passes_the_trace_on(binary):
    with collecting() as collector, Server(binary, "--hardware", "none", "--otlp-traces-endpoint", collector.url) as server:
        with Server(binary, "--backend", server.url, verb="route") as route:
            harness.Context(route.url, "none", None).wait_ready(60)
            ask(harness.Context(route.url, "none", None), traceparent=f"00-{TRACE}-{PARENT}-01")
            wait_for(lambda: collector.spans())
            span = collector.spans()[0]
            assert (span["traceId"], span["parentSpanId"]) == (TRACE, PARENT)


def test_the_routers_span_is_the_parent_of_the_servers(binary):
    with collecting() as collector, Server(binary, "--hardware", "none", "--otlp-traces-endpoint", collector.url) as server:
        with Server(binary, "--backend", server.url, "--otlp-traces-endpoint", collector.url, "--otlp-metrics-endpoint",
                    collector.url, "--otlp-metrics-interval-ms", "200", "--otlp-service-name", "router", verb="route") as route:
            context = harness.Context(route.url, "none", None)
            context.wait_ready(60)
            ask(context, traceparent=f"00-{TRACE}-{PARENT}-01")
            wait_for(lambda: len(collector.spans()) == 2)
            spans = {span["name"]: span for span in collector.spans()}
            outer, inner = spans["route_request"], spans["llm_request"]
            assert (outer["traceId"], outer["parentSpanId"]) == (TRACE, PARENT), outer
            assert (inner["traceId"], inner["parentSpanId"]) == (TRACE, outer["spanId"]), inner
            assert int(outer["startTimeUnixNano"]) <= int(inner["startTimeUnixNano"]) + 5e6, spans  # two clocks of one machine
            said = attributes(outer)
            assert said["quire.route.backend"] == server.url.removeprefix("http://"), said
            assert (said["http.response.status_code"], said["url.path"]) == ("200", "/v1/chat/completions"), said
            assert said["quire.route.attempts"] == "1" and said["quire.route.time_to_first_byte"] > 0, said
            ask(context, traceparent=f"00-{TRACE}-{PARENT}-00")  # the client asks for no spans
            ask(context)
            wait_for(lambda: len(collector.spans()) == 4)
            last = {span["name"]: span for span in collector.spans()[2:]}
            assert last["llm_request"]["parentSpanId"] == last["route_request"]["spanId"], last
            assert "parentSpanId" not in last["route_request"], last
            wait_for(lambda: "quire:route_requests_total" in collector.metrics())
            # A span counts as sent when its answer has arrived, which is after the collector
            # received it.
            wait_for(lambda: "quire:otlp_spans_sent_total 2.0" in context.request("GET", "/metrics")[2])


def test_pooled_requests_have_spans_too(binary):
    for name, path, operation in (("xlm_roberta_cls", "/v1/embeddings", "embeddings"), ("xlm_roberta_cls", "/pooling", "pooling"),
                                  ("bert_classifier", "/classify", "classify")):
        ids = [case["ids"] for case in golden(name)][:2]
        with collecting() as collector, \
                Server(binary, os.path.join(GOLDENS, name), "--hardware", "none", "--otlp-traces-endpoint", collector.url) as server:
            context = harness.Context(server.url, "none", None)
            context.post(path, {"model": context.model, "input": ids})
            wait_for(lambda: collector.spans())
            span = collector.spans()[0]
            said = attributes(span)
            assert span["name"] == "llm_request" and said["gen_ai.operation.name"] == operation, (path, said)
            assert said["gen_ai.usage.prompt_tokens"] == str(sum(map(len, ids))), said
            assert said["gen_ai.usage.num_sequences"] == "2" and "gen_ai.usage.completion_tokens" not in said, said
            assert said["gen_ai.response.model"] == context.model and "status" not in span, span
            assert said["gen_ai.latency.e2e"] > 0, said


def test_a_collector_behind_https(binary):
    with tempfile.TemporaryDirectory() as folder:
        certificates = Certificates(folder)
        with collecting(tls=certificates) as collector:
            flags = ("--hardware", "none", "--otlp-traces-endpoint", collector.url)
            headers = ("--otlp-headers", "api-key=a%20secret,x-team=7")
            with Server(binary, *flags, "--otlp-ca-file", certificates.path("ca.pem"), *headers) as server:
                ask(harness.Context(server.url, "none", None))
                wait_for(lambda: collector.spans())
                sent = {name.lower(): value for name, value in collector.headers[0].items()}
                assert (sent["api-key"], sent["x-team"]) == ("a secret", "7"), sent
            environment = {**os.environ, "OTEL_EXPORTER_OTLP_CERTIFICATE": certificates.path("ca.pem"),
                           "OTEL_EXPORTER_OTLP_HEADERS": "api-key=b"}
            with Server(binary, *flags, environment=environment) as server:
                ask(harness.Context(server.url, "none", None))
                wait_for(lambda: len(collector.spans()) == 2)
            assert collector.headers[-1].get("api-key") == "b", collector.headers
            with Server(binary, *flags) as server:  # its authority is not one of the system's
                context = harness.Context(server.url, "none", None)
                ask(context)
                wait_for(lambda: "quire:otlp_spans_dropped_total 1.0" in context.request("GET", "/metrics")[2])
                assert "its certificate is not believed" in server.output(), server.output()
            assert len(collector.spans()) == 2


def test_requests_are_logged_with_the_fields_of_their_spans(binary):
    with Server(binary, "--hardware", "none", "--enable-log-requests", "--log-format", "json") as server:
        context = harness.Context(server.url, "none", None)
        answer = ask(context, traceparent=f"00-{TRACE}-{PARENT}-00")  # its trace is not collected
        context.request("GET", "/health")
        wait_for(lambda: '"request"' in server.output())
        lines = [json.loads(line) for line in server.output().splitlines() if line.startswith("{")]
        assert {"time", "level", "message"} <= set.intersection(*map(set, lines)), lines
        [line] = [line for line in lines if line["message"] == "request"]
        assert line["trace_id"] == TRACE and line["gen_ai.request.id"] == answer["id"], line
        assert line["gen_ai.usage.completion_tokens"] == str(answer["usage"]["completion_tokens"]), line
        assert line["time"].endswith("Z") and line["level"] == "info", line
    with Server(binary, "--hardware", "none", "--enable-log-requests") as server:
        answer = ask(harness.Context(server.url, "none", None))
        wait_for(lambda: " info request trace_id=" in server.output())
        assert f"gen_ai.request.id={answer['id']}" in server.output()
    with Server(binary, "--hardware", "none") as server:
        ask(harness.Context(server.url, "none", None))
        assert "gen_ai" not in server.output()


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
            for _ in range(5):
                ask(context)
            # Answers do not wait for a collector that hangs: it has received nothing yet.
            assert "delay_s" not in kwargs or not collector.bodies
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
