"""Graphs made to fit a capacity: what ops cost, which may run again, and the way from a source to the plan."""
