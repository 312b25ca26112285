#!/usr/bin/env python3
"""Times PyTorch's products and attention on a GPU, for the rows of `quire bench kernels`.

Names are those of that table, so the two can be read side by side. Calls run inside a captured graph.
Weights differ from call to call and take more memory together than the GPU's L2 cache holds; inputs of
products, and those of attention, are the same in every call.
"""

import statistics
import sys

import torch
import torch.nn.functional as F

LINEARS = [("llama-8b qkv", 6144, 4096), ("llama-8b o", 4096, 4096),
           ("llama-8b gate_up", 28672, 4096), ("llama-8b down", 4096, 14336)]
RING_BYTES = 4 << 30


def time_us(calls):
    """Returns the time per call: the median over replays of a graph of all calls."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for call in calls[:3]:
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    times = []
    for _ in range(8):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) * 1e3 / len(calls))
    return statistics.median(times[1:])


def row(name, us, num_bytes, flops):
    print(f"{name:58} {us:10.1f} us {num_bytes / us * 1e-3:8.0f} GB/s {flops / us * 1e-6:8.1f} TFLOP/s",
          flush=True)


def linears():
    for name, n, k in LINEARS:
        copies = max(1, min(40, RING_BYTES // (2 * n * k)))
        weights = [torch.rand(n, k, device="cuda", dtype=torch.bfloat16) - 0.5 for _ in range(copies)]
        for m in (1, 8, 16, 64, 256, 1024, 8192):
            x = torch.rand(m, k, device="cuda", dtype=torch.bfloat16) - 0.5
            calls = [lambda w=w: F.linear(x, w) for w in weights[:10 if m >= 1024 else copies]]
            row(f"linear {name} bf16 m={m}", time_us(calls), 2 * (n * k + m * (n + k)), 2 * m * n * k)


def prefill():
    for heads, kv_heads, dim, length in ((32, 8, 128, 1024), (32, 8, 128, 8192)):
        q = torch.randn(1, heads, length, dim, device="cuda", dtype=torch.bfloat16)
        k, v = (torch.randn(1, kv_heads, length, dim, device="cuda", dtype=torch.bfloat16)
                for _ in range(2))
        call = lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        us = time_us([call] * 10)
        row(f"attention llama-8b {length} tokens at 0", us, 0, 2 * heads * dim * length * length)


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit("torch_kernels.py: PyTorch finds no GPU here")
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    with torch.no_grad():
        linears()
        prefill()
