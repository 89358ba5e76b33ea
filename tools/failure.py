"""How a command ends when it cannot go on: one clear line, and not a traceback."""

from __future__ import annotations


class ToolFailure(Exception):
    """Something the person at the keyboard can understand and mend; shown as one line."""
