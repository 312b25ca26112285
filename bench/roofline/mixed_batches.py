"""Does adding prompt and decode time predict mixed batches better than overlapping them?

usage: mixed_batches.py TABLE…   (mixed.csv files of llmservingsim_tables.py: one attention launch over both parts)

Each rule predicts the time of the mixed launch from the measured times of its two parts alone; parameters (lambda, the
launch overhead that a sum counts twice) are fitted on half of the rows and judged on the other half.
"""

import csv
import sys
from statistics import mean, median


def load(path):
    with open(path) as file:
        for row in csv.DictReader(file):
            yield {k: float(v) for k, v in row.items()}


def errors(rows, rule):
    signed = [rule(r["prefill_us"], r["decode_us"]) / r["us"] - 1 for r in rows]
    return 100 * mean(abs(e) for e in signed), 100 * mean(signed), 100 * median(abs(e) for e in signed)


def best(rows, family, grid):
    return min(grid, key=lambda x: errors(rows, lambda p, d: family(p, d, x))[0])


def main():
    for path in sys.argv[1:]:
        rows = [r for r in load(path) if r["us"] > 0]
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


if __name__ == "__main__":
    main()
