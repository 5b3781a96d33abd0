"""Two branches in two orders, as concepts.md has them."""

import memplan

KiB = 1024
sizes = {"wide_a": 10, "wide_b": 8, "a": 1, "b": 1, "y": 1}
ops = {"wide_a": ["x"], "wide_b": ["x"], "a": ["wide_a"], "b": ["wide_b"], "y": ["a", "b"]}
branches = {
    "tensors": [
        {"name": "x", "bytes": KiB, "kind": "input"},
        *({"name": name, "bytes": size * KiB} for name, size in sizes.items()),
    ],
    "ops": [{"name": f"make_{name}", "inputs": inputs, "outputs": [name]} for name, inputs in ops.items()],
    "outputs": ["y"],
}
plans = [memplan.plan(branches, order=order) for order in ("given", "best")]
figure = memplan.draw.plot_plans(plans, titles=["given", "best"])[0].figure
figure.set_size_inches(10, 4.4)
