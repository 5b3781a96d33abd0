"""Prices on larger problems: what is paid, and the bound, after some seconds each.

    python tests/benchmarks/prices.py --seconds 1,5,15 problem.json more.csv

A JSON file has columns `size`, `first` and `last`, a `capacity`, and rows of `price`: two positions and a price. A CSV
file of lifetimes (id, lower, upper, size) gets prices: most buffers that are born soon after the death of another one
pay for its bytes; the capacity is a share above the load. Without files, layered problems get the same.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
from collections.abc import Iterator
from pathlib import Path

import memplan

Rows = list[tuple[str, str, int]]


def with_prices(problem: memplan.Problem, seed: int) -> tuple[memplan.Problem, Rows, int]:
    """Prices of what follows what, and a capacity, by chance."""
    chance = random.Random(seed)
    after, share, most = chance.choice([20, 30, 40]), chance.choice([0.5, 0.75, 0.9]), chance.choice([1, 1, 9])
    first, last = problem.first.tolist(), problem.last.tolist()
    by_birth = sorted(range(len(problem)), key=first.__getitem__)
    rows = []
    for a in range(len(problem)):
        later = [b for b in by_birth if first[b] >= last[a]][:after]
        rows += [(f"#{a}", f"#{b}", chance.randint(1, most)) for b in later if chance.random() < share]
    return problem, rows, int(problem.load * chance.choice([1.2, 1.3, 1.4]))


def read(path: Path) -> tuple[memplan.Problem, Rows, int]:
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            lines = [(int(row["size"]), int(row["lower"]), int(row["upper"])) for row in csv.DictReader(file)]
        return with_prices(memplan.Problem(*map(list, zip(*lines, strict=True))), len(lines))
    given = json.loads(path.read_text())
    rows = [(f"#{a}", f"#{b}", price) for a, b, price in given["price"]]
    return memplan.Problem(given["size"], given["first"], given["last"]), rows, given["capacity"]


def problems(paths: list[Path]) -> Iterator[tuple[str, tuple[memplan.Problem, Rows, int]]]:
    for path in paths:
        yield path.name, read(path)
    if not paths:
        for count in (100, 300, 1000, 3000):
            yield f"layered, {count}", with_prices(memplan.generate.layered(count, seed=count), count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seconds", default="1,5,15")
    options = parser.parse_args()
    for name, (problem, rows, capacity) in problems(options.files):
        print(f"{name}: {len(problem)} buffers, {len(rows)} prices, capacity {capacity:,}", flush=True)
        for seconds in map(float, options.seconds.split(",")):
            found = memplan.plan(problem, price=rows, capacity=capacity, time_limit=seconds)
            assert found.pricing is not None
            price, bound = found.pricing.price, found.pricing.price_bound
            print(f"  {seconds:g} s: price {price:,}, bound {bound:,}; {found.seconds:.2f} s of wall time", flush=True)


if __name__ == "__main__":
    main()
