#!/usr/bin/env python3
"""bench/report over a program that prints what `quire` prints, and its parts on text."""
import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True  # bench/report has no extension, so its cache would be written beside it
SCRIPT = pathlib.Path(__file__).resolve().parent / "report"
loader = importlib.machinery.SourceFileLoader("report", str(SCRIPT))
report = importlib.util.module_from_spec(importlib.util.spec_from_loader("report", loader))
loader.exec_module(report)

LATENCY_OUTPUT = """\
model    llama-3.2-1b (bf16 weights, bf16 KV cache)
machine  reads 46.1 GB/s, bf16 multiply-adds 900 GFLOP/s (just measured)
prefill  1 x 512 tokens: 1230.8 ms, 416.0 tokens/s, 824 GFLOP/s (92 % of the peak), 89 % of the bound
decode   1 x 24 tokens: 53.48 ms per step, 18.7 tokens/s, 46.5 GB/s, 91 % of the bound
"""
LOAD_OUTPUT = """\
clients output tok/s  TTFT median ms  ITL median ms  ITL p99 ms % of the bound  executor % of wall
     32        150.6            2535           60.1        74.2             86                  99
resident memory 3012 MiB
"""
START_OUTPUT = """\
no cache       ready after 0.70 s, first token after 0.73 s, resident memory 2401 MiB
from the cache ready after 0.31 s, first token after 0.38 s, resident memory 2401 MiB
from the cache ready after 0.30 s, first token after 0.33 s, resident memory 2401 MiB
from the cache ready after 0.30 s, first token after 0.34 s, resident memory 2401 MiB
"""
PEERS_OUTPUT = """\
type   case                quire  llama.cpp   ratio  runs   (tokens/s, 2 threads, medians)
bf16   decode               19.9       18.1   1.26x     8
int8   prefill-512         787.0      132.0   6.05x     6
"""
FAKE = f"""#!/usr/bin/env python3
import sys
if sys.argv[1:] == ["--version"]:
    print("quire 9.8.7")
elif sys.argv[1:3] == ["bench", "latency"] and "fp8" not in sys.argv:
    print('''{LATENCY_OUTPUT}''', end="")
else:
    sys.exit("expected something else")
"""


class Parts(unittest.TestCase):
    def test_latency(self):
        rows = report.latency_rows(LATENCY_OUTPUT, "c", "decode, bf16", "prompt, bf16")
        self.assertEqual([str(row) for row in rows], ["| decode, bf16 | 18.7 tokens/s | 91 % | `c` |",
                                                      "| prompt, bf16 | 416 tokens/s | 89 % | `c` |"])
        self.assertEqual(len(report.latency_rows(LATENCY_OUTPUT, "c", "", "prompt, bf16")), 1)

    def test_serving(self):
        rows = report.serving_rows(LOAD_OUTPUT, "c")
        self.assertEqual([(row.figure, row.share) for row in rows],
                         [("151 output tokens/s", "86 %"), ("2,535 ms", ""), ("74.2 ms", "")])

    def test_start_is_the_median(self):
        self.assertEqual([row.figure for row in report.start_rows(START_OUTPUT, "c")], ["0.73 s", "0.34 s"])

    def test_peers(self):
        self.assertEqual([str(row) for row in report.peer_rows(PEERS_OUTPUT, "c")],
                         ["| decode, bf16 | 19.9 | 18.1 | 1.26x | 8 |", "| prefill-512, int8 | 787 | 132 | 6.05x | 6 |"])

    def test_flags_reach_the_program(self):
        self.assertEqual(report.with_flags("quire bench latency", ["--isa", "avx2"]), "quire bench latency --isa avx2")
        self.assertEqual(report.with_flags("bench/serving/start.py", ["--isa", "avx2"]),
                         "bench/serving/start.py -- --isa avx2")
        self.assertEqual(report.with_flags("load.py -- --a", ["--isa", "avx2"]), "load.py -- --a --isa avx2")

    def test_section_is_replaced_or_added(self):
        page = "# Measured\n\n## A\n\nold\n\n## B\n\nkept\n"
        self.assertEqual(report.put_into(page, "## A\n\nnew\n"), "# Measured\n\n## A\n\nnew\n\n## B\n\nkept\n")
        self.assertEqual(report.put_into(page, "## B\n\nnew\n"), "# Measured\n\n## A\n\nold\n\n## B\n\nnew\n")
        self.assertEqual(report.put_into(page, "## C\n\nnew\n"), page + "\n## C\n\nnew\n")

    def test_limits_are_spans(self):
        other = LATENCY_OUTPUT.replace("46.1", "60.0")
        self.assertEqual(report.limits_line([LATENCY_OUTPUT, other]), "reads 46.1 to 60.0 GB/s; bf16 900 GFLOP/s")


class WholeProgram(unittest.TestCase):
    def test_prints_a_section_and_fails_for_a_command_that_failed(self):
        with tempfile.TemporaryDirectory() as folder:
            fake = os.path.join(folder, "quire")
            pathlib.Path(fake).write_text(FAKE, encoding="utf-8")
            os.chmod(fake, 0o755)
            done = subprocess.run([sys.executable, str(SCRIPT), "--binary", fake, "--rows", "weights", "--machine", "M",
                                   "--", "--isa", "avx2"], capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn("--shape-weights fp8 --isa avx2: exit code 1: expected something else", done.stderr)
            lines = done.stdout.splitlines()
            self.assertEqual(lines[0], "## M")
            self.assertIn(", quire 9.8.7. Probed limits: reads 46.1 GB/s; bf16 900 GFLOP/s.", lines[2])
            self.assertEqual(lines[4:7], [
                "| what | figure | of the limit | command |", "|---|--:|--:|---|",
                "| decode, bf16 | 18.7 tokens/s | 91 % | `quire bench latency --shape llama-3.2-1b --input-len 512 "
                "--output-len 24 --num-iters 3 --isa avx2` |"])
            self.assertEqual(len(lines), 6 + 2 * (len(report.WEIGHTS) - 1))

    def test_an_unknown_group_is_refused_by_name(self):
        done = subprocess.run([sys.executable, str(SCRIPT), "--rows", "weights,other"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("got 'other'", done.stderr)


if __name__ == "__main__":
    unittest.main()
