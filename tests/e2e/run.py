#!/usr/bin/env python3
"""End-to-end tests against a running server, through the official openai client and plain sockets.

    build/oracle/bin/python tests/e2e/run.py [URL] [--filter TEXT] [--pid PID]

URL (or $QUIRE_URL) is the server's address, http://127.0.0.1:8000 by default; $QUIRE_API_KEY its key, if it has one.
PID, the server's process, lets the load tests watch its memory. Exit code 0 when nothing failed; the last line counts.
"""
import argparse
import os
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import harness  # noqa: E402
import test_client  # noqa: E402
import test_load  # noqa: E402


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url", nargs="?", default=os.environ.get("QUIRE_URL", "http://127.0.0.1:8000"))
    parser.add_argument("--filter", default="")
    parser.add_argument("--pid", type=int, default=int(os.environ.get("QUIRE_PID", "0")))
    args = parser.parse_args()
    context = harness.Context(args.url.rstrip("/"), os.environ.get("QUIRE_API_KEY", "none"), args.pid)
    context.wait_ready(60)

    passed = failed = skipped = 0
    for module in (test_client, test_load):
        for name, function in sorted(vars(module).items()):
            if not name.startswith("test_") or not callable(function) or args.filter not in name:
                continue
            start = time.time()
            try:
                function(context)
                outcome, passed = "ok", passed + 1
            except harness.Skip as reason:
                outcome, skipped = f"SKIPPED: {reason}", skipped + 1
            except Exception:  # noqa: BLE001: a test may fail in any way
                outcome, failed = "FAILED\n" + traceback.format_exc(), failed + 1
            print(f"{name}: {outcome} ({time.time() - start:.2f} s)", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
