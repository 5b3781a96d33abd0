"""Whether a network fits: what a step needs, and the largest size that fits a budget."""
