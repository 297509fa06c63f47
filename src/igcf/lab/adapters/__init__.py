"""Adapters to other libraries: a LensKit component and a scikit-learn estimator."""
