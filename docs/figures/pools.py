"""A network in two pools, and what each byte of the first saves, as memories.md has them."""

import memplan
from memplan.plans import Pool

plan = memplan.plan("example:resnet50_infer", pools=[Pool("sram", "4MiB", alignment=64), Pool("dram", alignment=64)])
plan.plot()
plan.pareto().plot()
