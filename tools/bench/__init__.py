"""`warp bench`."""
