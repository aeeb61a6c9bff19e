"""The report: one HTML file with the figures of an optimization, both graphs, and every rewrite."""
