"""The user-item graph: normalised adjacency and propagation as a polynomial in it; never torch."""

from igcf.graph.adjacency import GraphWarning, normalised_adjacency
from igcf.graph.filter import FilterSettings, GraphFilter, fit_graph_filter
from igcf.graph.propagation import (
    Operator,
    Polynomial,
    Propagation,
    appnp_weights,
    build_propagation,
    lightgcn_weights,
    sgc_weights,
)
from igcf.graph.sparse_products import csr_product, sampled_products, sparse_product

__all__ = [
    "FilterSettings",
    "GraphFilter",
    "GraphWarning",
    "Operator",
    "Polynomial",
    "Propagation",
    "appnp_weights",
    "build_propagation",
    "csr_product",
    "fit_graph_filter",
    "lightgcn_weights",
    "normalised_adjacency",
    "sampled_products",
    "sgc_weights",
    "sparse_product",
]
