"""The public contract: events of a live session and what they mean."""
