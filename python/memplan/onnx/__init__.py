"""The wing of ONNX: it reads models, runs plans of them in ONNX Runtime or node by node, and writes them as planned."""

from .wing import WING

__all__ = ["WING"]
