"""The programs around peers; each speaks the JSON lines of `interop.peers.lines`."""
