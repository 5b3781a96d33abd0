"""Static memory planning for neural networks.

``memplan.plan(source)`` gives every tensor of a network an offset in one arena, so that tensors that are alive
together never overlap; every plan is verified before it is returned.
"""

from types import ModuleType as _ModuleType

from . import doctor as doctor
from . import frontend as _frontend
from . import generate as generate
from . import options as options
from ._core import Graph, Op, OrderProgress, Problem, Tensor, __version__
from .api import capture, fit, order_bound, plan, read_plan, refute, reorder
from .comparing.comparison import Comparison, compare
from .comparing.row import ComparisonRow
from .comparing.sweep import Sweep, sweep
from .diffs.diff import PlanDiff
from .draw.gantt import plot_plans
from .draw.page import write_page
from .errors import (
    GraphError,
    InvalidPlanError,
    MissingDependencyError,
    PlannerError,
    ProblemError,
    SourceError,
    TimeLimitError,
    UnsupportedError,
)
from .estimating.estimate import estimate
from .estimating.result import Estimate, Largest
from .explaining.explanation import Explanation
from .explaining.obstructing import Obstruction, obstruction
from .explaining.reuse import Reuse
from .facade import Plan
from .fitting.curve import Pareto, ParetoPoint
from .fitting.largest import largest
from .fitting.pareto import pareto
from .importers import Network
from .importers.csv import read_problem
from .importers.tape import Tape, read_tape
from .inplace_ops import INPLACE_OPS
from .methods.planning import plan_many
from .methods.result import MethodsPlan
from .planning.interface import Options, Parameter, Placement, PlannerInfo
from .planning.orders import OrderInfo, order_names, orders
from .planning.registry import planner_names, planners, register
from .plans.changes import Change, Fitting
from .plans.failing import InfeasibleError
from .plans.fragmentation import Fragmentation, PoolUse
from .plans.pools import PlannedPool, PlannedPools, Pool
from .plans.ranged import AtSize, Ranged
from .plans.slots import Coalescing, Overlap, Slot
from .plans.tensors import Tensors
from .proofs.checker import RefutationError
from .proofs.clique import Clique, CliqueError, CliqueMember, heaviest_clique
from .proofs.order_bound import OrderBound
from .proofs.order_checker import OrderBoundError
from .proofs.proven import Proven
from .proofs.refutation import Refutation
from .verifying import verify

__all__ = [
    "INPLACE_OPS",
    "AtSize",
    "Change",
    "Clique",
    "CliqueError",
    "CliqueMember",
    "Coalescing",
    "Comparison",
    "ComparisonRow",
    "Estimate",
    "Explanation",
    "Fitting",
    "Fragmentation",
    "Graph",
    "GraphError",
    "InfeasibleError",
    "InvalidPlanError",
    "Largest",
    "MethodsPlan",
    "MissingDependencyError",
    "Network",
    "Obstruction",
    "Op",
    "Options",
    "OrderBound",
    "OrderBoundError",
    "OrderInfo",
    "OrderProgress",
    "Overlap",
    "Parameter",
    "Pareto",
    "ParetoPoint",
    "Placement",
    "Plan",
    "PlanDiff",
    "PlannedPool",
    "PlannedPools",
    "PlannerError",
    "PlannerInfo",
    "Pool",
    "PoolUse",
    "Problem",
    "ProblemError",
    "Proven",
    "Ranged",
    "Refutation",
    "RefutationError",
    "Reuse",
    "Slot",
    "SourceError",
    "Sweep",
    "Tape",
    "Tensor",
    "Tensors",
    "TimeLimitError",
    "UnsupportedError",
    "__version__",
    "capture",
    "compare",
    "estimate",
    "fit",
    "heaviest_clique",
    "largest",
    "obstruction",
    "order_bound",
    "order_names",
    "orders",
    "pareto",
    "plan",
    "plan_many",
    "planner_names",
    "planners",
    "plot_plans",
    "read_plan",
    "read_problem",
    "read_tape",
    "refute",
    "register",
    "reorder",
    "sweep",
    "verify",
    "write_page",
]


def __getattr__(name: str) -> _ModuleType:
    """The package of a wing, such as `memplan.torch`."""
    package = None if name.startswith("_") else _frontend.package(name)
    if package is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return package


def __dir__() -> list[str]:
    return sorted([*globals(), *_frontend.names()])
