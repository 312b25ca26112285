#!/usr/bin/env python3
"""Makes src/weights/quant/gguf_grids.cc: the grids of GGUF's IQ types, from the `gguf` package of the ggml project.

Run it in the oracle environment (./dev setup --oracles): build/oracle/bin/python tools/make_gguf_grids.py

A block of an IQ type names a point of a grid for every 8 (IQ1, IQ2) or 4 (IQ3) weights. A coordinate is one of 3 or 8
levels; a point is written here as one 16-bit number, 2 or 3 bits for each coordinate, the first one lowest.
"""

import pathlib

import numpy as np
from gguf import quants

OUT = pathlib.Path(__file__).resolve().parent.parent / "src/weights/quant/gguf_grids.cc"
GRIDS = [("kIq1Grid", quants.IQ1_S, 2), ("kIq2XxsGrid", quants.IQ2_XXS, 2), ("kIq2XsGrid", quants.IQ2_XS, 2),
         ("kIq2SGrid", quants.IQ2_S, 2), ("kIq3XxsGrid", quants.IQ3_XXS, 3), ("kIq3SGrid", quants.IQ3_S, 3)]


def points(kind, bits):
    kind.init_grid()
    grid = np.array(kind.grid).reshape(kind.grid_shape)
    levels = np.searchsorted(np.array(kind.grid_map, np.float32), grid).astype(np.uint32)
    return (levels << (np.arange(grid.shape[1], dtype=np.uint32) * bits)).sum(axis=1)


def main():
    lines = ["// tools/make_gguf_grids.py made this file from the tables of the ggml project (MIT licence).",
             '#include "weights/quant/gguf_grids.h"', "", "namespace quire {", ""]
    for name, kind, bits in GRIDS:
        numbers = [f"0x{p:04x}" for p in points(kind, bits)]
        lines.append(f"const std::array<uint16_t, {len(numbers)}> {name} = {{")
        lines += ["    " + ", ".join(numbers[i:i + 12]) + "," for i in range(0, len(numbers), 12)]
        lines += ["};", ""]
    OUT.write_text("\n".join(lines + ["}  // namespace quire", ""]))


if __name__ == "__main__":
    main()
