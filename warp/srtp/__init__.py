"""Front door (being built)."""
