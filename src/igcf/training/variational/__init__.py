"""The variational graph model of the paper; the only place that needs torch."""
