"""Opus, concealment, stretching and rates: between RTP payloads and a model's samples."""
