"""Real clients of `/v1/live/sessions`, each in an environment of its own, in spoken conversation.

VoiceClient.prepare() ─▶ virtual environment in the user's cache ─▶ programs/<name>_client.py
converse(client, url, question) ─▶ Conversation: what was understood, said, and heard when
"""

from interop.voice_clients.clients import (
    CLIENTS,
    Conversation,
    VoiceClient,
    VoiceClientFailed,
    converse,
)

__all__ = ["CLIENTS", "Conversation", "VoiceClient", "VoiceClientFailed", "converse"]
