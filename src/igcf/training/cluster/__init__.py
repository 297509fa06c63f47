"""Training of the default model on several workers, each of which holds some of the users (docs/scale.md)."""
