"""Training on several workers: the columns of all vectors are split over them (docs/scale.md)."""
