"""From a graph or a problem, and what is asked of it, to a plan."""
