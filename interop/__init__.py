"""Real peers on the other end: browsers, other stacks. Never installed, driven by tests/interop."""
