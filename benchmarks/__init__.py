"""Measurements of what Baton costs, printed as tables. Machines are shared and noisy: look at the ratios."""
