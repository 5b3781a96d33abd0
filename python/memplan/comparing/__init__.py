"""Comparing planners: one source by many planners, and many sources."""
