"""Static memory planning for neural networks.

``memplan.plan(source)`` gives every tensor of a network an offset in one arena, so that tensors that are alive
together never overlap; every plan is verified before it is returned.

Here is what most people call. The other names are in modules of their feature, such as `memplan.proofs`; a framework's
are in its wing, such as `memplan.torch`.
"""

from types import ModuleType as _ModuleType

from . import comparing as comparing
from . import diffs as diffs
from . import doctor as doctor
from . import draw as draw
from . import errors as errors
from . import estimating as estimating
from . import explaining as explaining
from . import fitting as fitting
from . import frontend as frontend
from . import generate as generate
from . import importers as importers
from . import inplace_ops as inplace_ops
from . import methods as methods
from . import options as options
from . import planning as planning
from . import plans as plans
from . import proofs as proofs
from ._core import Graph, Op, Problem, Tensor, __version__
from .api import capture, fit, order_bound, plan, read_plan, refute, reorder
from .comparing.comparison import compare
from .comparing.sweep import sweep
from .estimating.estimate import estimate
from .fitting.largest import largest
from .fitting.pareto import pareto
from .importers.csv import read_problem
from .methods.planning import plan_many
from .planning.orders import orders
from .planning.registry import planners, register
from .plans.failing import InfeasibleError
from .plans.plan import Plan
from .verifying import verify

__all__ = [
    "Graph",
    "InfeasibleError",
    "Op",
    "Plan",
    "Problem",
    "Tensor",
    "__version__",
    "capture",
    "compare",
    "estimate",
    "fit",
    "largest",
    "order_bound",
    "orders",
    "pareto",
    "plan",
    "plan_many",
    "planners",
    "read_plan",
    "read_problem",
    "refute",
    "register",
    "reorder",
    "sweep",
    "verify",
]


def __getattr__(name: str) -> _ModuleType:
    """The package of a wing, such as `memplan.torch`."""
    package = None if name.startswith("_") else frontend.package(name)
    if package is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return package


def __dir__() -> list[str]:
    return sorted([*globals(), *frontend.names()])
