"""A pure-Python WebRTC stack that speaks WARP."""
