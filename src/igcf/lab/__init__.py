"""Research: baselines, evaluation protocols, theory and benchmarks."""
