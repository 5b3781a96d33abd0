"""The options of functions, as records: `Reading`, `Sharing`, `Layout`, `Search`. Functions take them by name."""

from .records import Layout, Reading, Search, Sharing

__all__ = ["Layout", "Reading", "Search", "Sharing"]
