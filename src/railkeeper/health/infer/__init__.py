"""Inference: which parts of a network lose packets, and at what rate, from counts along paths."""
