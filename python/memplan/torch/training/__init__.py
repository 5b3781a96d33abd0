"""Eager torch: a step is recorded, planned, and later steps are served from one arena."""
