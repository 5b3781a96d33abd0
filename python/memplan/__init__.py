"""Static memory planning for neural networks.

``memplan.plan(source)`` gives every tensor of a network an offset in one arena, so that tensors that are alive
together never overlap; every plan is verified before it is returned.
"""

from ._core import Graph, Op, Problem, Tensor, __version__
from .api import capture, plan, refute
from .checker import RefutationError
from .errors import (
    GraphError,
    InfeasibleError,
    InvalidPlanError,
    MissingDependencyError,
    ProblemError,
    SourceError,
    UnsupportedError,
)
from .importers.csv import read_problem
from .importers.inplace import INPLACE_OPS
from .importers.plan_files import read_plan
from .inductor import InductorCapture, capture_inductor
from .plan import Plan, Sharing, Slot
from .planners import PlannerInfo, planners
from .refutation import Refutation

__all__ = [
    "INPLACE_OPS",
    "Graph",
    "GraphError",
    "InductorCapture",
    "InfeasibleError",
    "InvalidPlanError",
    "MissingDependencyError",
    "Op",
    "Plan",
    "PlannerInfo",
    "Problem",
    "ProblemError",
    "Refutation",
    "RefutationError",
    "Sharing",
    "Slot",
    "SourceError",
    "Tensor",
    "UnsupportedError",
    "__version__",
    "capture",
    "capture_inductor",
    "plan",
    "planners",
    "read_plan",
    "read_problem",
    "refute",
]
