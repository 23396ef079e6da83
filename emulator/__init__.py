"""A strict local Messages API with a rule-based stand-in model; imports nothing of ours."""
