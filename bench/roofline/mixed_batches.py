"""Does adding prompt and decode time predict mixed batches better than overlapping them?

usage: mixed_batches.py [--plot FILE.svg] TABLE…   (mixed.csv files of llmservingsim_tables.py: one attention launch
over both parts)

Each rule predicts the time of the mixed launch from the measured times of its two parts alone; parameters (lambda, the
launch overhead that a sum counts twice) are fitted on half of the rows and judged on the other half.
"""

import argparse
import csv
from collections import defaultdict
from pathlib import Path
from statistics import mean, median


def load(path):
    with open(path) as file:
        for row in csv.DictReader(file):
            yield {k: float(v) for k, v in row.items() if k != "kv_cache_dtype"}


def errors(rows, rule):
    signed = [rule(r["prefill_us"], r["decode_us"]) / r["us"] - 1 for r in rows]
    return 100 * mean(abs(e) for e in signed), 100 * mean(signed), 100 * median(abs(e) for e in signed)


def best(rows, family, grid):
    return min(grid, key=lambda x: errors(rows, lambda p, d: family(p, d, x))[0])


COLOURS = ("#0b6e99", "#c4501b", "#5a8f29", "#7a3e9d")
LEFT, TOP, WIDTH, HEIGHT, MOST = 60, 30, 520, 260, 2.6


def at(log2_decodes, ratio):
    return LEFT + WIDTH * log2_decodes / 8, TOP + HEIGHT * (1 - min(ratio, MOST) / MOST)


def curve(points, colour, dashed=False):
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<polyline points="{text}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>'


def write_plot(path, tables):
    """Plots the median time of a mixed launch, as a share of the sum of its parts, by the number of decodes; dashed is
    the maximum of the parts."""
    label = '<text x="{:.0f}" y="{:.0f}" font-size="12" text-anchor="{}">{}</text>'.format
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 620 350" font-family="sans-serif">',
             '<rect width="620" height="350" fill="white"/>']
    for ratio in (0.5, 1, 1.5, 2, 2.5):
        x, y = at(0, ratio)
        parts.append(f'<path d="M{x:.0f} {y:.0f}h{WIDTH}" stroke="{"#444" if ratio == 1 else "#ddd"}"/>')
        parts.append(label(x - 6, y + 4, "end", ratio))
    parts += [label(at(power, 0)[0], TOP + HEIGHT + 18, "middle", 2 ** power) for power in range(9)]
    parts.append(label(LEFT + WIDTH / 2, TOP + HEIGHT + 38, "middle", "decodes in the launch"))
    parts.append(label(LEFT, TOP - 12, "start", "median time of the launch over the sum of its parts (dashed: longer part)"))
    for colour, (name, rows) in zip(COLOURS, tables):
        by_decodes = defaultdict(list)
        for r in rows:
            by_decodes[int(r["n_decode"]).bit_length() - 1].append(r)
        whole, longer = [], []
        for power, group in sorted(by_decodes.items()):
            both = [r["prefill_us"] + r["decode_us"] for r in group]
            whole.append(at(power, median(r["us"] / b for r, b in zip(group, both))))
            longer.append(at(power, median(max(r["prefill_us"], r["decode_us"]) / b for r, b in zip(group, both))))
        parts += [curve(whole, colour), curve(longer, colour, dashed=True)]
        parts.append(f'<text x="{whole[-1][0] - 6:.0f}" y="{whole[-1][1] - 8:.0f}" font-size="12" text-anchor="end" '
                     f'fill="{colour}">{name}</text>')
    Path(path).write_text("\n".join(parts + ["</svg>"]) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plot", help="SVG file")
    parser.add_argument("tables", nargs="+")
    args = parser.parse_args()
    plotted = []
    for path in args.tables:
        rows = [r for r in load(path) if r["us"] > 0]
        plotted.append((Path(path).parent.name, rows))
        fit, judge = rows[0::2], rows[1::2]
        launch = best(fit, lambda p, d, x: p + d - x, [x * 0.5 for x in range(0, 41)])
        lam = best(fit, lambda p, d, x: max(p, d) + x * min(p, d), [x * 0.05 for x in range(0, 61)])
        scale = best(fit, lambda p, d, x: x * (p + d), [0.8 + x * 0.02 for x in range(0, 60)])
        rules = {
            "max": max,
            "sum": lambda p, d: p + d,
            f"sum - {launch:g} us launch": lambda p, d: p + d - launch,
            f"max + {lam:.2f} min": lambda p, d: max(p, d) + lam * min(p, d),
            f"{scale:.2f} sum": lambda p, d: scale * (p + d),
        }
        print(f"{path}: {len(rows)} mixed launches, judged on {len(judge)}")
        comparable = [r for r in judge if 1 / 3 < r["prefill_us"] / r["decode_us"] < 3]
        for name, rule in rules.items():
            all_rows, near = errors(judge, rule), errors(comparable, rule)
            print(f"  {name:24} MAPE {all_rows[0]:5.1f} %  bias {all_rows[1]:+6.1f} %  median {all_rows[2]:5.1f} %"
                  f"  | parts within 3x of each other ({len(comparable)}): {near[0]:5.1f} % ({near[1]:+.1f} %)")
    if args.plot:
        write_plot(args.plot, plotted)


if __name__ == "__main__":
    main()
