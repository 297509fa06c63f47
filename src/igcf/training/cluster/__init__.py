"""Training of the default model on several workers, which divide the users (docs/scale.md)."""
