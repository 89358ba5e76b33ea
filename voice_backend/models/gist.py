"""What somebody said, said back: persons exchanged, questions put into the order of a report.

"I want to fly to Paris"            ──▶ "you want to fly to Paris"
"What is the capital of France?"    ──▶ "what the capital of France is"
"""

from __future__ import annotations

import re
from typing import Final

_SWAPPED: Final = {
    "i": "you", "me": "you", "my": "your", "mine": "yours", "myself": "yourself", "i'm": "you're",
    "i've": "you've", "i'd": "you'd", "i'll": "you'll", "am": "are", "your": "my", "yours": "mine",
    "yourself": "myself", "you're": "I'm", "you've": "I've", "you'd": "I'd", "you'll": "I'll",
    "we": "you", "us": "you", "our": "your",
}  # fmt: skip
_OBJECT_AFTER: Final = frozenset(
    {"to", "for", "with", "from", "about", "of", "at", "tell", "told", "ask", "asked", "give",
     "gave", "hear", "heard", "see", "saw", "know", "love", "like", "help", "and", "thank", "call"}
)  # fmt: skip
_BE: Final = frozenset({"is", "are", "was", "were", "am"})
_AUXILIARY: Final = _BE | {
    "do",
    "does",
    "did",
    "can",
    "could",
    "will",
    "would",
    "should",
    "have",
    "has",
}
_ASKING: Final = frozenset({"what", "who", "where", "when", "why", "which", "whose", "how"})
_PLAIN: Final = frozenset(
    {"a", "about", "an", "and", "are", "at", "be", "but", "do", "for", "from", "had", "has", "have",
     "he", "her", "him", "his", "i", "i'm", "in", "is", "it", "it's", "its", "just", "like", "me",
     "my", "no", "not", "of", "on", "or", "our", "please", "really", "she", "so", "some", "that",
     "the", "their", "them", "then", "there", "they", "think", "this", "to", "too", "uh", "um",
     "us", "very", "want", "was", "we", "well", "were", "with", "would", "yes", "you", "your",
     "today", "because", "should", "could", "going", "know", "what", "when", "where", "rather",
     "quite"}
)  # fmt: skip
_OPENING: Final = frozenset(
    {"after", "all", "although", "always", "before", "every", "if", "maybe", "my", "never", "once",
     "one", "perhaps", "since", "someone", "tomorrow", "unless", "until", "while", "yesterday"}
)  # fmt: skip
_WISHED: Final = frozenset(
    {"book", "bring", "buy", "calculate", "count", "describe", "explain", "find", "get", "give",
     "look", "make", "open", "order", "play", "read", "search", "send", "set", "show", "sing",
     "tell", "translate", "turn", "write"}
)  # fmt: skip
_POLITE = re.compile(
    r"^(?:can|could|will|would) you (?:please )?|^i(?: would|'d) like you to |^i want you to ", re.I
)
_FILLER = re.compile(
    r"^(?:(?:okay|ok|well|so|um+|uh+|er|please|hey|oh|and|but)[,.]?\s+)+", re.IGNORECASE
)
_TAIL = re.compile(r"[\s.!?,;:…]+$")
MOST_WORDS: Final = 24
"""Of a gist: what is longer is cut at its end."""


def plain(text: str) -> str:
    """Return a text without fillers at its beginning and without punctuation at its end."""
    return _TAIL.sub("", _FILLER.sub("", " ".join(text.split())))


def is_question(text: str) -> bool:
    """Tell whether it asks for something that could be known."""
    words = plain(text).lower().replace("'s", " is").split()
    if not words:
        return False
    if words[0] in _ASKING:
        return len(words) > 1
    return text.rstrip().endswith("?") and words[0] in _AUXILIARY


def reported(text: str) -> str:
    """Return what was said as one would report it: "you want to fly to Paris"."""
    words = [w for w in re.sub(r"(?i)\b(what|who|where)'s\b", r"\1 is", plain(text)).split()]
    words = _lowered(words)[:MOST_WORDS]
    if not words:
        return ""
    if words[0].lower() in _ASKING and len(words) > 2:
        words = _uninverted(words)
    return " ".join(_exchanged(words))


def reported_question(text: str) -> str:
    """Return a question as one would report it: "what the capital of France is"."""
    told = reported(text)
    words = told.split()
    if words and words[0].lower() in _AUXILIARY and len(words) > 2:
        verb, subject, *rest = words
        kept = [] if verb in ("do", "does", "did") else [verb]
        return " ".join(["whether", subject, *kept, *rest])
    return told


def wish(text: str) -> str:
    """Return what somebody asks to be done, "tell you about the moon"; "" if nothing is."""
    said = plain(text)
    asked = _POLITE.sub("", said)
    words = asked.split()
    if len(words) < 2 or (asked == said and words[0].lower() not in _WISHED):
        return ""
    return reported(asked)


def topic(text: str) -> str:
    """Return what it was about: its last name, else its longest word of weight; "" for none."""
    words = [_TAIL.sub("", word) for word in plain(text).split()]
    names = [w for w in words[1:] if w[:1].isupper() and w.lower() not in _PLAIN and w != "I"]
    if names:
        return names[-1]
    weighty = [w for w in words if w.lower() not in _PLAIN and len(w) > 2]
    return max(weighty, key=len).lower() if weighty else ""


def _uninverted(words: list[str]) -> list[str]:
    """Put the verb of a question behind its subject, where that is plain to see."""
    ask, verb, *rest = words
    low = verb.lower()
    if low in _BE:
        if rest[0].lower() in (
            "i",
            "you",
            "it",
            "he",
            "she",
            "they",
            "we",
            "this",
            "that",
            "there",
        ):
            return [ask, rest[0], verb, *rest[1:]]
        return [ask, *rest, verb]
    if low in ("do", "does", "did") and len(rest) > 1:
        return [ask, *rest]
    if low in _AUXILIARY:
        return [ask, rest[0], verb, *rest[1:]]
    return words


def _exchanged(words: list[str]) -> list[str]:
    swapped, before = [], ""
    for at, word in enumerate(words):
        low = word.lower().rstrip(",.;:!?")
        end = word[len(low) :]
        last = at == len(words) - 1
        if low == "you":
            new = "me" if last or before in _OBJECT_AFTER else "I"
        elif low == "are" and before == "you":
            new = "am"
        elif low == "was" and before == "i":
            new = "were"
        else:
            new = _SWAPPED.get(low, word[: len(low)])
        swapped.append(new + end)
        before = low
    return swapped


def _lowered(words: list[str]) -> list[str]:
    """Lower the capital that only the beginning of a sentence gave."""
    if words and not words[0].startswith(("I'", "I ")) and words[0] != "I":
        first = words[0]
        common = first.lower().rstrip(",") in _PLAIN | _ASKING | _AUXILIARY | _OPENING | _WISHED
        if common:
            words = [first[0].lower() + first[1:], *words[1:]]
    return words
