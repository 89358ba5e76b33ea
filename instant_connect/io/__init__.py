"""What touches the network on behalf of `instant_connect`: HTTP routes."""

from __future__ import annotations
