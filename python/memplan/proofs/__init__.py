"""Proofs that no plan fits a capacity, and the check of them."""
