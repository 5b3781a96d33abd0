"""Planners by name: the registry, and what planners written in Python are given and give back."""
