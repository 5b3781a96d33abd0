"""Planners by name: the registry, and what planners written in Python are given and give back."""

from .._core import OrderProgress
from .interface import Options, Parameter, Placement, PlannerInfo
from .orders import OrderInfo, order_names
from .registry import planner_names

__all__ = [
    "Options",
    "OrderInfo",
    "OrderProgress",
    "Parameter",
    "Placement",
    "PlannerInfo",
    "order_names",
    "planner_names",
]
