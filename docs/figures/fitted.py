"""A chain of eight ops forwards and backwards, as it is and within 400 bytes, as fit.md has them."""

import memplan

chain = {"tensors": [{"name": "x", "bytes": 100, "kind": "input"}], "ops": [], "outputs": ["g0"]}
before = "x"
for way, steps in (("t", range(8)), ("g", reversed(range(8)))):
    for k in steps:
        inputs = [before] if way == "t" else [before, f"t{k}"]
        before = f"{way}{k}"
        chain["tensors"].append({"name": before, "bytes": 100})
        chain["ops"].append({"name": f"make_{before}", "inputs": inputs, "outputs": [before], "cost": 1})
plans = [memplan.plan(chain), memplan.fit(chain, 400)]
figure = memplan.plot_plans(plans, titles=["as it is", "within 400 bytes"])[0].figure
figure.set_size_inches(10, 5)
