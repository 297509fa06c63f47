"""Guarantees of the paper, corrected and checked by simulation (docs/theory.md); never torch."""
