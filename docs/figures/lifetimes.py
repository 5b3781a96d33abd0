"""The lifetimes of the network in concepts.md, and its load."""

import matplotlib.pyplot as plt

import memplan

KiB = 1024
storages = [
    ("conv1, relu1", 16, 0, 4),
    ("conv2, sum", 16, 2, 5),
    ("workspace", 8, 2, 3),
    ("pool", 4, 4, 6),
    ("fc", 0.25, 5, 6),
]
size, first, last = zip(*[(int(kib * KiB), first, last) for _, kib, first, last in storages], strict=True)
steps, load = memplan.Problem(size, first, last).load_curve()

figure, (bars, curve) = plt.subplots(2, 1, figsize=(7, 3.8), sharex=True, height_ratios=(2.2, 1), layout="constrained")
for row, (name, kib, begin, end) in enumerate(storages):
    bars.barh(row, end - begin, left=begin, height=0.7, color="#56B4E9", edgecolor="black", linewidth=0.6)
    label = f"{name}: {kib:g} KiB, [{begin}, {end})"
    if end - begin > 1:
        bars.text(begin + 0.08, row, label, va="center")
    else:
        bars.text(begin - 0.08, row, label, va="center", ha="right")
bars.invert_yaxis()
bars.set_yticks([])
bars.set_title("lifetimes", loc="left")
curve.stairs(load[:-1] / KiB, steps, color="black", fill=False, baseline=0)
curve.axhline(max(load) / KiB, color="#D55E00", linestyle="--", linewidth=1)
curve.text(0.08, max(load) / KiB - 1.5, f"load: {max(load) // KiB} KiB, in step 2", color="#A84A00", va="top")
curve.set_ylim(0, 46)
curve.set_ylabel("KiB in use")
curve.set_xlabel("step")
curve.set_xlim(0, 6.3)
for ax in (bars, curve):
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="x", color="0.9")
    ax.set_axisbelow(True)
