"""A trial: the golden set asked of the product's own graph, measured, reported, compared and held against limits."""
