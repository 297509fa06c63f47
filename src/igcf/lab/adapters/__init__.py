"""Adapters to other libraries: a LensKit component, a scikit-learn estimator, a reader of RecBole's files."""
