"""The wing of TFLite: it reads flatbuffers, knows the kernels of TFLite Micro, and writes plans into models."""

from .reading.micro import Kernel, kernels
from .wing import WING

__all__ = ["WING", "Kernel", "kernels"]
