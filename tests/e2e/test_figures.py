"""Figures as JSON: every verb that prints some, on one line of standard output and nothing else there."""
import json
import os
import tempfile

from command import LLAMA_8B, MODEL, PROMPT, ROOT, ok, read, refused
from process import Server

QUICK = ("--hardware", "none")


def figures(binary, *arguments, flag=("--json",), **kwargs):
    done = ok(binary, *arguments, *flag, **kwargs)
    lines = done.stdout.splitlines()
    assert len(lines) == 1, (arguments, done.stdout)

    def not_json(word):
        raise AssertionError(f"{arguments}: {word} is no JSON")
    return json.loads(lines[0], parse_constant=not_json)


def numbers(value):
    """Returns all numbers in a JSON value, by the path of names to them."""
    if isinstance(value, dict):
        return {f"{key}.{name}": number for key, part in value.items() for name, number in numbers(part).items()}
    if isinstance(value, list):
        return {f"{i}.{name}": number for i, part in enumerate(value) for name, number in numbers(part).items()}
    return {"": value} if isinstance(value, (int, float)) and not isinstance(value, bool) else {}


def test_figures_of_benches(binary):
    lengths = ("--input-len", "8", "--output-len", "8")
    said = figures(binary, "bench", "latency", *lengths, "--num-iters", "1")
    assert said["prefill_ms"] > 0 and said["decode_step_ms"] > 0 and said["decode_tokens_per_s"] > 0, said
    assert "decode_step_ms" not in figures(binary, "bench", "latency", "--input-len", "8", "--output-len", "1", "--num-iters", "1")
    said = figures(binary, "bench", "throughput", *lengths, "--num-prompts", "2")
    assert said["output_tokens_per_s"] > 0 and said["steps"]["num_steps"] >= 8, said
    said = figures(binary, "bench", "ablation", MODEL, "--num-prompts", "2", "--input-len", "4", "--min-output-len", "2",
                   "--max-output-len", "4", "--num-kv-tokens", "64")
    assert [mode["mode"] for mode in said["modes"]][-1] == "continuous, paged" and len(said["modes"]) == 4, said
    said = figures(binary, "bench", "speculation", *QUICK, "--num-tokens", "16", "--num-streams", "1", "--num-repeats", "1",
                   "--filter", "edit")
    assert said["work"] and all(row["tokens_per_s_with"] > 0 for row in said["work"]), said
    said = figures(binary, "bench", "contention", *QUICK, "--threads", "2", "--num-rounds", "1", "--input-len", "8", "--output-len", "4")
    assert len(said["scenarios"]) == 5 and all(row["step_ms"] > 0 for row in said["scenarios"]), said
    with Server(binary, *QUICK) as server:
        said = figures(binary, "bench", "serve", "--port", str(server.port), "--num-prompts", "2", "--random-input-len", "4",
                       "--random-output-len", "4", "--goodput", "ttft:60000,tpot:60000", "--goodput", "e2el:60000")
        assert said["completed"] == 2 and said["total_output_tokens"] == 8 and said["request_goodput"] > 0, said


def test_figures_of_models(binary):
    said = figures(binary, "tokenize", "-p", PROMPT)
    assert said["num_tokens"] == len(said["tokens"]) and said["num_bytes"] == len(PROMPT), said
    ids = ",".join(str(token["id"]) for token in said["tokens"])
    assert figures(binary, "tokenize", "--decode", ids)["text"] == PROMPT
    refused(binary, "--ids excludes --json", "tokenize", "-p", "x", "--ids", "--json")
    said = figures(binary, "quantize", MODEL, "--activation-int8", "--report-tokens", "16")["quality"]
    assert said["num_tokens"] == 15 and 0 <= said["same_best_token_share"] <= 1, said


def test_figures_of_the_roofline(binary):
    shape = (LLAMA_8B, "--batch", "1,8", "--batch", "64", "--context", "1024", "--prompt", "512", "2048")
    said = figures(binary, "roofline", *shape, "--hardware", "h100-sxm")
    assert [row["batch"] for row in said["decode"]] == [1, 8, 64] and [row["tokens"] for row in said["prompts"]] == [512, 2048], said
    assert all(0 < row["bound_us"] <= row["predicted_us"] for row in said["decode"] + said["prompts"]), said
    assert said["kernels"]["decode"]["kernels"] and said["what_if"][0]["what"] == "as it is", said
    columns = figures(binary, "roofline", "compare", *shape, "--hardware", "h100-sxm,l40s")
    assert [column["hardware"]["name"] for column in columns] == ["h100-sxm", "l40s"], columns
    assert columns[0]["decode"] == said["decode"], columns[0]
    refused(binary, "--explain excludes --json", "roofline", *shape, "--explain", "--json")
    with tempfile.TemporaryDirectory() as folder:
        rows = read(os.path.join(ROOT, "bench", "roofline", "b200_products.csv")).splitlines()
        table = os.path.join(folder, "gemm.csv")
        with open(table, "w") as file:
            file.write("\n".join(rows[:1] + 4 * rows[1:]) + "\n")
        fits = {fit["what"]: fit for fit in figures(binary, "roofline", "calibrate", table, "--hardware", "b200", "--judge-only")["fits"]}
        assert fits["gemm fp8"]["num_judged"] == 100 and fits["gemm fp8"]["judged_error_percent"] < 12, fits
        log = os.path.join(folder, "steps.jsonl")
        ok(binary, "generate", "-p", PROMPT, "--max-tokens", "8", "--step-log", log)
        errors = figures(binary, "roofline", "residuals", log, "--hardware", "cpu-avx2")["errors"]
        assert errors[-1]["steps"] == "all" and errors[-1]["num_steps"] > 0, errors


def test_figures_of_simulations(binary):
    load = (LLAMA_8B, "--rate", "4", "--num-requests", "20", "--goodput", "ttft:500", "tpot:50", "--slo", "ttft:p90:800,tpot:p50:30")
    said = figures(binary, "simulate", *load, flag=("--json", "-"))
    assert said["completed"] == 20 and numbers(said), said
    plan = figures(binary, "plan", *load, "--tp", "1", "2", "--try-seqs", "64", "--try-batched-tokens", "8192", flag=("--json", "-"))
    assert numbers(plan), plan
    with tempfile.TemporaryDirectory() as folder:
        measured = os.path.join(folder, "measured.json")
        with open(measured, "w") as file:
            json.dump(said, file)
        rows = figures(binary, "compare", measured, measured)["figures"]
        assert rows and all(row["predicted"][0]["error_percent"] == 0 for row in rows), rows
