"""simulate, plan and roofline, as whole processes."""
import concurrent.futures
import csv
import json
import os
import re
import tempfile
import xml.etree.ElementTree

from command import LLAMA_8B, ROOT, complete, elements_of, generate, ok, read, refused, run
from process import Server

# simulate and plan

SIMULATE = ("simulate", LLAMA_8B, "--hardware", "h100-sxm", "--rate", "8", "--num-requests", "200", "--input-len",
            "uniform:50:800", "--output-len", "exponential:120", "--goodput", "ttft:500", "tpot:50")


def test_simulate_same_seed_same_bytes(binary):
    with tempfile.TemporaryDirectory() as folder:
        def outputs(name, *flags):
            files = [os.path.join(folder, f"{name}.{end}") for end in ("json", "csv", "html")]
            text = ok(binary, *SIMULATE, *flags, "--json", files[0], "--csv", files[1], "--html", files[2]).stdout
            return (text, *(read(file) for file in files))

        a = outputs("a", "--seed", "5", "--replicas", "2")
        assert a == outputs("b", "--seed", "5", "--replicas", "2")
        assert a == outputs("c", "--seed", "5", "--replicas", "2", "--threads", "2", "--no-fast-forward")
        assert a[2] != outputs("d", "--seed", "6", "--replicas", "2")[2]


def test_simulate_outputs_parse_and_agree(binary):
    with tempfile.TemporaryDirectory() as folder:
        files = {end: os.path.join(folder, "out." + end) for end in ("json", "csv", "html", "trace")}
        text = ok(binary, *SIMULATE, "--json", files["json"], "--csv", files["csv"], "--html", files["html"],
                  "--chrome-trace", files["trace"]).stdout
        assert "200 completed" in text, text
        figures = json.loads(read(files["json"]))
        rows = list(csv.DictReader(read(files["csv"]).splitlines()))
        assert figures["completed"] == len(rows) == 200
        assert figures["total_output_tokens"] == sum(int(row["output_tokens"]) for row in rows)
        mean_ttft_ms = sum(float(row["ttft_ms"]) for row in rows) / len(rows)
        assert abs(figures["mean_ttft_ms"] - mean_ttft_ms) < 1e-3, (figures["mean_ttft_ms"], mean_ttft_ms)
        for row in rows:  # every moment of a request has one cause
            parts = sum(float(v) for k, v in row.items() if k.startswith("ttft_") and k != "ttft_ms")
            assert abs(parts - float(row["ttft_ms"])) < 1e-3, row
        assert elements_of(files["html"])["svg"] >= 1
        assert "http://" not in read(files["html"]).replace("http://www.w3.org/2000/svg", "")
        events = json.loads(read(files["trace"]))["traceEvents"]
        assert sum(event["ph"] == "b" and event["name"] == "waiting" for event in events) == 200


def test_simulate_names_file_and_line_of_a_malformed_trace(binary):
    good = read(os.path.join(ROOT, "docs", "examples", "chat-trace.jsonl")).splitlines()
    azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.6805900,374,44\n"
    cases = {"not_json.jsonl": ("\n".join(good[:2] + ["{"] + good[2:]), 3),
             "negative.jsonl": ("\n".join(good + [good[0].replace("1400", "-1")]), len(good) + 1),
             "words.csv": (azure + "2023-11-16 18:15:50.9951690,many,109\n", 3),
             "short_row.csv": (azure + azure.splitlines()[1] + "\n2023-11-16 18:15:51\n", 4)}
    with tempfile.TemporaryDirectory() as folder:
        for name, (content, line) in cases.items():
            path = os.path.join(folder, name)
            with open(path, "w") as file:
                file.write(content)
            refused(binary, f"{name}:{line}", "simulate", LLAMA_8B, "--trace", path)
        empty = os.path.join(folder, "empty.jsonl")
        open(empty, "w").close()
        refused(binary, "empty.jsonl", "simulate", LLAMA_8B, "--trace", empty)
        refused(binary, "/no/such/trace", "simulate", LLAMA_8B, "--trace", "/no/such/trace")
    refused(binary, "/no/such/folder", *SIMULATE, "--csv", "/no/such/folder/out.csv")
    refused(binary, "no-such-device", "simulate", LLAMA_8B, "--hardware", "no-such-device")
    refused(binary, "/no/such/model", "simulate", "/no/such/model")
    refused(binary, "sometimes", "simulate", LLAMA_8B, "--arrivals", "sometimes")


def test_simulate_by_tables_of_operator_times(binary):
    fields = {"qkv": (6144, 4096), "o": (4096, 4096), "up": (28672, 4096), "down": (4096, 14336), "head": (128256, 4096)}
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "gemm.csv"), "w", encoding="utf-8") as file:
            file.write("gemm_dtype,m,n,k,latency\n")
            for n, k in fields.values():  # ten times what reading the weights takes, in ms
                file.writelines(f"bfloat16,{m},{n},{k},{10 * 2 * n * k / 3350e9 * 1e3}\n" for m in (1, 8, 64))
        with open(os.path.join(folder, "notes.csv"), "w", encoding="utf-8") as file:
            file.write("who,what\n")
        figures = {name: os.path.join(folder, name + ".json") for name in ("plain", "table", "folder")}
        alone = ("simulate", LLAMA_8B, "--hardware", "h100-sxm", "--concurrency", "1", "--num-requests", "3", "--input-len",
                 "64", "--output-len", "20", "--json")
        ok(binary, *alone, figures["plain"])
        ok(binary, *alone, figures["table"], "--fidelity", "table", "--tables", os.path.join(folder, "gemm.csv"))
        ok(binary, *alone, figures["folder"], "--fidelity", "table", "--tables", folder)
        plain, table, whole = (json.loads(read(path))["mean_tpot_ms"] for path in figures.values())
        weights_ms = 2 * (sum(n * k for n, k in list(fields.values())[:4]) * 32 + 128256 * 4096) / 3350e9 * 1e3
        assert table == whole and 10 * weights_ms < table < 10 * weights_ms + plain, (plain, table, weights_ms)
        bare = ("simulate", LLAMA_8B, "--hardware", "l40s", "--num-requests", "3")  # no tables are built in
        refused(binary, "--tables FILE", *bare, "--fidelity", "table")
        refused(binary, "gemm_dtype", *alone, figures["table"], "--fidelity", "table", "--tables",
                os.path.join(folder, "notes.csv"))
        refused(binary, "tables describe one device", "plan", LLAMA_8B, "--hardware", "h100-sxm,l40s", "--fidelity", "table", "--tables",
                folder, "--goodput", "ttft:500")


def test_simulate_refuses_what_no_run_can_hold(binary):
    for flag, value in (("--stop-after", "1e20"), ("--think-time", "1e300"), ("--provisioning-time", "9e9"),
                        ("--admission-ms", "nan"), ("--transfer-gb-per-s", "1e-300"), ("--threads", "100000"),
                        ("--prefix-len", "2147483647")):
        refused(binary, flag + ": expected", *SIMULATE, flag, value)
    ok(binary, *SIMULATE, "--threads", "1000", "--replicas", "2", "--routing", "random")  # there are no more threads than replicas
    refused(binary, "of this machine's memory", *SIMULATE, "--num-gpu-blocks-override", "1073741824")
    refused(binary, "expected one device, got 2", *SIMULATE[:2], "--hardware", "h100-sxm,l40s")
    refused(binary, "got picture.png", "roofline", LLAMA_8B, "--hardware", "h100-sxm", "--plot", "picture.png")


def test_compare_prints_errors_and_fails_beyond_a_limit(binary):
    with tempfile.TemporaryDirectory() as folder:
        paths = [os.path.join(folder, name) for name in ("a.json", "b.json")]
        for path, tpot in zip(paths, (20.0, 21.0)):
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"completed": 5, "mean_tpot_ms": tpot, "output_throughput": 100}, file)
        text = ok(binary, "compare", *paths, "--max-error", "5.1").stdout
        row = next(line for line in text.splitlines() if line.startswith("TPOT mean"))
        assert row.split()[3:] == ["20.00", "21.00", "+5.0", "%"], text
        refused(binary, "TPOT mean ms", "compare", *paths, "--max-error", "4.9")
        with open(paths[1], "w", encoding="utf-8") as file:  # a missing figure does not meet a limit
            json.dump({"completed": 5, "output_throughput": 100}, file)
        ok(binary, "compare", *paths)
        refused(binary, "mean_tpot_ms in", "compare", *paths, "--max-error", "50")
        with open(paths[1], "w", encoding="utf-8") as file:
            file.write("[1]")
        refused(binary, "b.json", "compare", *paths)
        refused(binary, "/no/such", "compare", paths[0], "/no/such")


def test_simulate_reads_back_the_trace_it_saves(binary):
    with tempfile.TemporaryDirectory() as folder:
        saved, first, second = (os.path.join(folder, name) for name in ("saved.jsonl", "a.csv", "b.csv"))
        ok(binary, *SIMULATE, "--save-trace", saved, "--csv", first)
        ok(binary, "simulate", LLAMA_8B, "--hardware", "h100-sxm", "--trace", saved, "--csv", second)
        assert read(first) == read(second)


def test_simulate_knows_whose_server_it_is(binary):
    def figures(*flags):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "run.json")
            ok(binary, *SIMULATE, *flags, "--json", out)
            return json.loads(read(out))

    old, new = figures("--engine", "vllm-0.12"), figures("--engine", "vllm-0.15")
    assert old["run"]["engine"] == "vllm-0.12", old["run"]
    # With this version, 2 ms of host time precede every step, instead of 0.4 ms that overlap with
    # it.
    assert old["mean_tpot_ms"] > new["mean_tpot_ms"] + 1.2, (old["mean_tpot_ms"], new["mean_tpot_ms"])
    # Flags on the command line override the server's defaults.
    few = figures("--engine", "vllm-0.15", "--max-num-seqs", "2")
    assert few["fleet"]["mean_running"] <= 2 < new["fleet"]["mean_running"], few["fleet"]
    refused(binary, "vllm-0.19", *SIMULATE, "--engine", "vllm")


def test_simulate_shows_what_paging_buys(binary):
    with tempfile.TemporaryDirectory() as folder:
        table, page = (os.path.join(folder, name) for name in ("modes.json", "modes.html"))
        text = ok(binary, "simulate", LLAMA_8B, "--hardware", "rtx-4090", "--max-model-len", "4096", "--rate", "inf",
                  "--num-requests", "200", "--output-len", "lognormal:128:200", "--ablation", "--json", table, "--html",
                  page).stdout
        modes = json.loads(read(table))["modes"]
        assert [mode["completed"] for mode in modes] == [200] * 4, modes
        rates = [mode["request_throughput"] for mode in modes]
        assert rates[0] < rates[2] < rates[3] and rates[0] < rates[1] < rates[3], rates
        assert modes[2]["wasted_kv_share"] > 0.6 and modes[3]["wasted_kv_share"] < 0.04, modes
        assert all(mode["mode"] in text and mode["mode"] in read(page) for mode in modes), text
        assert elements_of(page)["svg"] == 4
    refused(binary, "--csv", "simulate", LLAMA_8B, "--ablation", "--csv", "/tmp/none.csv")


def test_slos_are_apart_by_metric_and_statistic(binary):
    kept = ok(binary, *SIMULATE, "--slo", "ttft:p90:100000,tpot:mean:1").stdout
    assert "p90 TTFT" in kept and "kept" in kept and "missed" in kept, kept
    load = ("--rate", "20", "--num-requests", "200", "--hardware", "h100-sxm", "--tp", "1", "--try-batched-tokens", "8192")
    plan = ok(binary, "plan", LLAMA_8B, *load, "--slo", "ttft:p90:800", "tpot:p50:60", "--try-kv-cache-dtypes",
              "auto,fp8").stdout
    assert "p90 TTFT within 800 ms, p50 TPOT within 60 ms" in plan and "--kv-cache-dtype" in plan, plan
    for wrong in ("ttft:800", "ttft:p91:800", "speed:p90:8", "ttft:p90:-1"):
        refused(binary, wrong, *SIMULATE, "--slo", wrong)


def test_simulate_ends_outputs_at_the_models_length(binary):
    text = ok(binary, "simulate", LLAMA_8B, "--max-model-len", "100", "--input-len", "50", "--output-len", "100",
              "--num-requests", "5", "--replicas", "2").stdout
    assert "250 in (0 cached), 250 out" in text, text


def test_plan_finds_what_simulate_confirms(binary):
    load = ("--rate", "20", "--num-requests", "200", "--goodput", "ttft:800", "tpot:60")
    with tempfile.TemporaryDirectory() as folder:
        table, page, run_of = (os.path.join(folder, name) for name in ("plan.json", "plan.html", "run.json"))
        arguments = ("plan", LLAMA_8B, "--hardware", "h100-sxm,l40s", "--tp", "1,2", "--try-batched-tokens", "8192",
                     "--try-seqs", "64,256", *load, "--json", table, "--html", page)
        text = ok(binary, *arguments).stdout
        outputs = read(table), read(page)
        assert ok(binary, *arguments).stdout == text and (read(table), read(page)) == outputs
        assert elements_of(page)["svg"] >= 1
        candidates = json.loads(outputs[0])["candidates"]
        assert len(candidates) == 8, candidates
        fewest = min(candidate["devices"] for candidate in candidates)
        assert f"= {fewest} devices" in next(line for line in text.splitlines() if line.startswith("plan ")), text

        def good_share(candidate, replicas):
            ok(binary, "simulate", LLAMA_8B, "--hardware", candidate["hardware"], "--tp",
               str(candidate["tensor_parallel"]), "--replicas", str(replicas), "--max-num-batched-tokens",
               str(candidate["max_num_batched_tokens"]), "--max-num-seqs", str(candidate["max_num_seqs"]), *load,
               "--json", run_of)
            figures = json.loads(read(run_of))
            return figures["request_goodput"] / figures["request_throughput"]

        for candidate in candidates:
            assert abs(good_share(candidate, candidate["replicas"]) - candidate["good_share"]) < 1e-6, candidate
            assert candidate["good_share"] >= 0.95, candidate
            if candidate["hardware"] == "l40s" and candidate["tensor_parallel"] == 1:
                assert candidate["replicas"] == 2 and good_share(candidate, 1) < 0.95, candidate
    none = run(binary, "plan", LLAMA_8B, "--hardware", "l40s", "--tp", "1", "--max-devices", "1", "--rate", "500",
               "--num-requests", "100", "--goodput", "ttft:1", "tpot:1")
    assert none.returncode == 1 and "none with at most 1 devices" in none.stdout, none
    assert "TTFT p99" in none.stderr and "of 1 ms" in none.stderr, none
    refused(binary, "/no/such/folder", "plan", LLAMA_8B, *load, "--json", "/no/such/folder/plan.json")
    refused(binary, "speed:9", "plan", LLAMA_8B, "--goodput", "speed:9")


# roofline

GPT_OSS = """{"model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 2, "num_attention_heads": 64,
  "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 32,
  "num_experts_per_tok": 4, "sliding_window": 128, "vocab_size": 201088, "max_position_embeddings": 131072,
  "layer_types": ["sliding_attention", "full_attention"], "torch_dtype": "bfloat16",
  "quantization_config": {"quant_method": "mxfp4"}}"""


def test_roofline_table_and_plots(binary):
    with tempfile.TemporaryDirectory() as folder:
        svg, page = os.path.join(folder, "plot.svg"), os.path.join(folder, "plot.html")
        arguments = ("roofline", LLAMA_8B, "--hardware", "h100-sxm", "--batch", "1", "64", "--context", "1024",
                     "--prompt", "512")
        text = ok(binary, *arguments, "--plot", svg).stdout
        assert ok(binary, *arguments, "--plot", page).stdout == text
        assert "8.03B parameters" in text and "h100-sxm" in text, text
        decode = [line.split() for line in text.splitlines() if line.split()[1:2] == ["1024"] and "%" in line]
        assert [row[0] for row in decode] == ["1", "64"], text
        assert xml.etree.ElementTree.parse(svg).getroot().tag == "{http://www.w3.org/2000/svg}svg"
        counts = elements_of(page)
        assert counts["svg"] == 2 and counts["pre"] == 1
        drawn = read(svg)
        assert "3350 GB/s" in drawn and "bf16 16-bit" in drawn
        labels = re.findall(r"class='label' x='([0-9.]+)' y='([0-9.]+)'", drawn)
        assert len(labels) == 3 and len(set(labels)) == 3, labels
        both = os.path.join(folder, "both.svg")
        ok(binary, "roofline", "compare", LLAMA_8B, "--hardware", "h100-sxm,l40s", "--batch", "1,64", "--plot", both)
        assert "3350 GB/s" in read(both) and "864 GB/s" in read(both)
        experts = os.path.join(folder, "experts.json")
        with open(experts, "w", encoding="utf-8") as file:
            file.write(GPT_OSS)
        assert "experts mxfp4" in ok(binary, "roofline", experts, *arguments[2:]).stdout
        fp8 = ok(binary, *arguments, "--weights", "fp8").stdout
        assert "8-bit weights" in fp8 and fp8 != text
    refused(binary, "/no/such", "roofline", "/no/such")
    refused(binary, "no-such-device", "roofline", LLAMA_8B, "--hardware", "no-such-device")
    refused(binary, "int3", "roofline", LLAMA_8B, "--hardware", "h100-sxm", "--weights", "int3")
    refused(binary, "got nope", "roofline", LLAMA_8B, "--batch", "nope")


def test_simulate_adapters_links_and_tables(binary):
    def figures(*flags, device="h100-sxm", prompt="500"):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.json")
            text = ok(binary, "simulate", LLAMA_8B, "--hardware", device, "--rate", "4", "--num-requests", "100",
                      "--input-len", prompt, "--output-len", "60", *flags, "--json", path).stdout
            return json.loads(read(path)), text

    plain, _ = figures()
    adapters, _ = figures("--num-loras", "8", "--max-loras", "2")
    assert adapters["mean_tpot_ms"] > plain["mean_tpot_ms"] and adapters["fleet"]["kv_tokens"] < plain["fleet"]["kv_tokens"]
    nvlink, pcie, host = (figures("--tp", "2", *flags)[0]["mean_tpot_ms"]
                          for flags in ((), ("--device-link", "pcie"), ("--device-link", "host")))
    assert nvlink < pcie < host, (nvlink, pcie, host)
    tables, text = figures("--fidelity", "auto")
    assert "fidelity         table" in text and tables["mean_tpot_ms"] != plain["mean_tpot_ms"], text
    assert "fidelity         analytic" in figures("--fidelity", "auto", device="l40s")[1]
    whole, merged = (figures(flag, prompt="6000")[0]["mean_ttft_ms"] for flag in ("--no-merge-blocks", "--merge-blocks"))
    assert abs(merged / whole - 1) < 0.01, (whole, merged)
    refused(binary, "got 'nvlink'", *SIMULATE, "--device-link", "nvlink")


def test_roofline_compares_and_explains(binary):
    sides = ok(binary, "roofline", "compare", LLAMA_8B, "--hardware", "h100-sxm,l40s", "--batch", "1", "--context",
               "1024", "--prompt", "512").stdout
    rows = {line[:34].strip(): line[34:].split() for line in sides.splitlines()}
    assert rows["hardware"] == ["h100-sxm", "l40s"], sides
    first, second, ratio = rows["decode tokens/s, 1 x 1024"]
    assert abs(float(second) / float(first) - float(ratio[1:])) < 0.02, sides
    plain = ("roofline", LLAMA_8B, "--hardware", "h100-sxm", "--batch", "16", "--context", "1024", "--prompt", "512")
    text = ok(binary, *plain, "--explain").stdout
    assert "why       one decode step, batch 16, context 1024" in text and "mostly weights" in text, text
    assert "why       a prompt of 512 tokens" in text and "why  " not in ok(binary, *plain).stdout
    refused(binary, "/no/such/folder", *plain, "--plot", "/no/such/folder/plot.svg")


def test_roofline_judges_a_step_log(binary):
    with open(os.path.join(ROOT, "fuzz", "corpus", "roofline", "step_log"), "rb") as file:
        log_text = file.read()[1:]  # the first byte chooses the fuzzed parser
    with tempfile.TemporaryDirectory() as folder:
        log, table, plot = (os.path.join(folder, name) for name in ("steps.jsonl", "errors.csv", "errors.svg"))
        with open(log, "wb") as file:
            file.write(log_text)
        text = ok(binary, "roofline", "residuals", log, "--hardware", "h100-sxm", "--csv", table, "--plot", plot).stdout
        rows = list(csv.DictReader(read(table).splitlines()))
        assert len(rows) == log_text.count(b"\n") - 1 and f"{len(rows)} steps" in text, text
        assert xml.etree.ElementTree.parse(plot).getroot().tag == "{http://www.w3.org/2000/svg}svg"
        assert "2 layers" in ok(binary, "roofline", log, "--hardware", "h100-sxm").stdout


def test_roofline_calibrates_on_a_step_log(binary):
    with tempfile.TemporaryDirectory() as folder:
        limits, log, fitted = (os.path.join(folder, name) for name in ("limits.json", "steps.jsonl", "fitted.json"))
        # Limits that no machine reaches, so that no step of a test machine counts as "faster than
        # possible".
        with open(limits, "w") as file:
            json.dump({"name": "generous", "cpu": True, "num_units": 0, "memory_gb": 64, "memory_gb_per_s": 5000,
                       "peak_tflops": {"f32": 500, "bf16": 500, "int8": 500}}, file)
        # Drafts are off, because they would reduce the number of steps.
        with Server(binary, "--hardware", limits, "--step-log", log, "--speculative-config", "none") as server:
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                calls = [pool.submit(complete, server.url, "word " * (3 + 9 * i), 20 + 9 * (i % 7)) for i in range(48)]
                assert all(call.result()["usage"]["completion_tokens"] >= 20 for call in calls)
        assert len(read(log).splitlines()) > 250
        done = ok(binary, "roofline", "calibrate", log, "--hardware", limits, "--output", fitted, "--name", "mine",
                  "--allow-overloaded")
        assert "error: fitted half" in done.stdout, done.stdout
        description = json.loads(read(fitted))
        assert description["name"] == "mine" and "steps.jsonl" in json.dumps(description["provenance"])
        assert "mine" in ok(binary, "roofline", "--hardware", fitted).stdout
        assert generate(binary, "--hardware", fitted) == generate(binary, "--hardware", "none")
        lines = read(log).splitlines()
        with open(log, "w") as file:
            file.write("\n".join(lines[:10] + ["{"] + lines[10:]))
        refused(binary, "steps.jsonl:11", "roofline", "calibrate", log, "--hardware", limits, "--output", fitted)
        refused(binary, "expected a step log", "roofline", "calibrate", __file__, "--hardware", limits, "--output",
                fitted)
