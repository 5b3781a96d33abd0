"""Two plans of the same four buffers, as concepts.md has them."""

import matplotlib.pyplot as plt

import memplan

problem = memplan.Problem([4, 2, 4, 4], [1, 2, 4, 2], [2, 4, 7, 5], names=list("ABCD"))
figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for ax, planner in zip(axes, ("first_fit", "auto"), strict=True):
    plan = memplan.plan(problem, planner)
    plan.plot(ax, title=planner)
    ax.set_ylim(0, 11)
