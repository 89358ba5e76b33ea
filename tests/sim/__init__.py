"""The virtual network that scenarios run in; see `pair.py` for how to drive it."""
