"""What the pages about the server's APIs show runs: each block of sh or python, over the built-in model."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from process import Server

PAGES = pathlib.Path(__file__).resolve().parent.parent.parent / "docs" / "doors"
ADDRESS = "http://127.0.0.1:8000"


def run_block(language, text, directory):
    command = ["bash", "-euo", "pipefail", "-c", text] if language == "sh" else [sys.executable, "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=directory)
    assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
    assert done.stdout.strip() and '"error":{' not in done.stdout, f"{text}\n{done.stdout}"


def check_page(binary, page):
    text = page.read_text()
    blocks = re.findall(r"^```(sh|python)\n(.*?)^```", text, re.M | re.S)
    assert blocks, f"{page}: no examples"
    flags = re.search(r"<!-- serve with: (.*) -->", text)
    with tempfile.TemporaryDirectory() as directory, \
            Server(os.path.abspath(binary), *(flags.group(1).split() if flags else [])) as server:
        for language, block in blocks:
            run_block(language, block.replace(ADDRESS, server.url), directory)


def test_examples_of_pages(binary):
    pages = sorted(PAGES.glob("*.md"))
    assert pages
    for page in pages:
        check_page(binary, page)
