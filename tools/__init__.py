"""Programs for those who develop igcf; not part of the package."""
