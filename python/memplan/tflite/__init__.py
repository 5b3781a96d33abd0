"""The wing of TFLite: it reads flatbuffers, knows the kernels of TFLite Micro, and writes plans into models."""

from .reading.micro import Kernel, kernels

__all__ = ["Kernel", "kernels"]
