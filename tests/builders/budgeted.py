"""Networks compiled within budgets."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd

from memplan.torch.compiling.budget import WithinBudget
from memplan.torch.compiling.step_load import held


def compiled(model: Any, budget: int, found: list[int], backwards: list[Any] | None = None) -> Any:
    """A model whose graphs run op by op, partitioned within a budget; the bytes that a step holds, the backwards."""

    class Noted(WithinBudget):
        def __call__(self, gm: Any, joint_inputs: Any, **kwargs: Any) -> Any:
            graphs = super().__call__(gm, joint_inputs, **kwargs)
            found.append(held(*graphs, kwargs["num_fwd_outputs"]))
            if backwards is not None:
                backwards.append(graphs[1])
            return graphs

    def as_it_is(graph: Any, inputs: Any) -> Any:
        graph.graph.set_codegen(torch.fx.graph._BoxedCodeGen())  # frees what it is given, as Inductor does
        graph.recompile()

        def run(args: Any) -> Any:
            return graph.forward(args)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    torch._dynamo.reset()
    return torch.compile(model, backend=aot_autograd(fw_compiler=as_it_is, partition_fn=Noted(budget)))
