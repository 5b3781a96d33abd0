"""What the front offers to wings, of this package and of others: they import nothing else of memplan.

A module stands for all its public names. Each has its documentation where it is; here is what wings take it for.
"""

from __future__ import annotations

OFFERED = {
    # a wing's own record
    "frontend": "the record that a wing fills: its sources, what runs their plans, its doors",
    "doctor": "which doors of a wing work with what is installed",
    "errors": "the errors that callers can expect",
    # reading: from a framework's graph to ours
    "_core": "graphs, problems and the searches on them, in C++",
    "dtypes": "bits and bytes of dtypes, by their usual names",
    "kinds": "kinds of tensors and of ops",
    "inplace_ops.ONNX_ELEMENTWISE": "ops that may overwrite an input, by ONNX's names",
    "inplace_ops.permitted": "which ops may overwrite an input, where a caller names some",
    "inplace_ops.reusable": "which inputs an output may overwrite",
    "calls": "the arguments of a model, by position and by name",
    "importers.form_of": "the form of a source that a caller hands in later",
    "importers.graph_dict.graph_of": "a graph dict as a Graph, checked",
    "importers.graph_dict.peak_of": "the peak of a body, such as a branch, by itself",
    "importers.claims": "loops of an op, said axis by axis",
    "importers.loops": "loops inside of ops: which rows of a result need which rows of an input",
    "importers.windows": "loops of ops that look at windows: convolutions, pools, resizes",
    "importers.notes": "what a caller should know of what was read, and what others need for it",
    "importers.tape": "recorded allocations of a step",
    "importers.unbound": "the error for symbolic sizes that have no number",
    "options.records.Reading": "the options that say how a source is read",
    "options.declaring.made": "a record of options, made of keywords and checked",
    "options.source.Source": "what was planned, with the options that it was read with",
    "options.checks": "checks of values that callers give",
    "planning.registry": "planners by name",
    "planning.orders.check_order": "the check of an order's name",
    # running and writing: from a plan to the framework
    "plans.plan.Plan": "a plan",
    "plans.changes.Change": "an op that a plan added or changed",
    "plans.changes.InPieces": "an op that a plan runs in pieces",
    "plans.failing": "the error where nothing fits, and that of a plan that does not hold",
    "plans.fragmentation": "how much of an arena is lost between buffers",
    "plans.placed": "offsets by tensors instead of buffers",
    "plans.pools.Pool": "a memory with a capacity",
    "plans.usage": "which bytes are in use when",
    "running.from_file.with_graph": "a plan from a file, with the graph of the source at hand",
    "running.matching": "whether a plan is of the source at hand",
    "running.ordering.PieceGraph": "a graph of ops in pieces, for another order",
    "running.poison": "garbage in the bytes that a plan says are free",
    "running.program": "what runs plans of a source, and a run",
    "solving.planning.plan": "memplan.plan",
    # saying
    "estimating.result": "what a step holds, as memplan.estimate says it",
    "explaining.explanation.Explanation": "what makes a peak",
    "explaining.held": "all that is held on a device, by what it is for",
    "explaining.recorded.held_by_tape": "the same, of recorded allocations",
    "printing.tables": "reports of sentences and tables",
    "sizes": "bytes as text, and budgets",
    "text": "names and counts as text",
    "files": "files written whole or not at all",
}
