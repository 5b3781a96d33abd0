"""Static memory planning for neural networks.

``memplan.plan(source)`` gives every tensor of a network an offset in one arena, so that tensors that are alive
together never overlap; every plan is verified before it is returned.
"""

from ._core import Graph, Op, Problem, Tensor, __version__
from .api import capture, plan, refute
from .checker import RefutationError
from .compare import Comparison, compare
from .diff import PlanDiff
from .errors import (
    GraphError,
    InfeasibleError,
    InvalidPlanError,
    MissingDependencyError,
    PlannerError,
    ProblemError,
    SourceError,
    UnsupportedError,
)
from .explain import Explanation, Reuse
from .importers.csv import read_problem
from .importers.inplace import INPLACE_OPS
from .importers.plan_files import read_plan
from .inductor import InductorCapture, capture_inductor
from .plan import Plan
from .planners import PlannerInfo, planners
from .present.gantt import plot_plans
from .present.page import write_page
from .refutation import Refutation
from .slots import Sharing, Slot
from .sweep import Sweep, sweep
from .tensors import Tensors

__all__ = [
    "INPLACE_OPS",
    "Comparison",
    "Explanation",
    "Graph",
    "GraphError",
    "InductorCapture",
    "InfeasibleError",
    "InvalidPlanError",
    "MissingDependencyError",
    "Op",
    "Plan",
    "PlanDiff",
    "PlannerError",
    "PlannerInfo",
    "Problem",
    "ProblemError",
    "Refutation",
    "RefutationError",
    "Reuse",
    "Sharing",
    "Slot",
    "SourceError",
    "Sweep",
    "Tensor",
    "Tensors",
    "UnsupportedError",
    "__version__",
    "capture",
    "capture_inductor",
    "compare",
    "plan",
    "planners",
    "plot_plans",
    "read_plan",
    "read_problem",
    "refute",
    "sweep",
    "write_page",
]
