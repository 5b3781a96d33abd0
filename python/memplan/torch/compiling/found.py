"""What torch finds by the name of the backend, when a model is to be compiled for it first."""

from . import backend
from .given import watch

watch()

__all__ = ["backend"]
