"""The rules of `talker`, in the order in which they are asked: each knows one kind of request."""

from __future__ import annotations

import re
from datetime import timedelta
from fractions import Fraction
from typing import Final

from voice_backend.models import gist
from voice_backend.models.arithmetic import find_sum
from voice_backend.models.heard import Heard, Rule
from voice_backend.models.numbers import read_number, spoken

MOST_COUNTED: Final = 50
_ORDINALS: Final = {1: "first", 2: "second", 3: "third", 5: "fifth", 8: "eighth", 9: "ninth",
                    12: "twelfth"}  # fmt: skip
_BE_QUIET = re.compile(
    r" (?:stop|quiet|silence|shut up|enough|never mind|cancel|be quiet|stop it|stop talking) "
)
_HOLD_ON = re.compile(
    r" (?:hold on|hang on|wait|one moment|one second|(?:give me |just )?a (?:second|minute|moment)"
    r"|let me think) "
)
_REPEAT = re.compile(
    r" (?:say that again|repeat (?:that|it|yourself|your answer)|come again|pardon|one more time"
    r"|what did you (?:just )?say|i (?:did not|didn't) (?:hear|get|catch|understand) (?:that|you)) "
)
_AFTER_ME = re.compile(r" (?:repeat after me|say after me|repeat the words?|please say|say) (.+) $")
_WHAT_I_SAID = re.compile(
    r" (?:what (?:did|have) i (?:just )?(?:say|said|tell you|ask)|repeat what i (?:just )?said"
    r"|what was my (?:question|last sentence)|did you (?:hear|understand) me"
    r"|what (?:did|do) you hear|can you hear me) "
)
_MY_NAME = re.compile(r"\b(?:my name is|my name's|call me|name is)\s+([A-Za-z][\w'’-]*)", re.I)
_I_AM = re.compile(
    r"^(?:(?:hello|hi|hey)[,.!]?\s+)?(?:i'm|i am|this is)\s+([A-Z][\w'’-]*)[.!]?$", re.I
)
_NOT_NAMES: Final = frozenset(
    {"a", "an", "fine", "good", "here", "not", "okay", "sorry", "so", "sure", "the", "tired",
     "well", "happy", "sad", "hungry", "great", "back", "ready", "done", "it", "that"}
)  # fmt: skip
_ASK_MY_NAME = re.compile(
    r" (?:what is my name|what's my name|who am i|do you (?:know|remember) my name) "
)
_ASK_YOUR_NAME = re.compile(
    r" (?:what is your name|what's your name|who are you|what are you"
    r"|are you (?:a )?(?:robot|human|person|real)) "
)
_CAN_DO = re.compile(
    r" (?:what can you do|what (?:else )?can i (?:ask|say)|what do you (?:do|know)|can you help me"
    r"|help me|how can you help|help) "
)
_TIME = re.compile(
    r" (?:what time is it|what's the time|what is the time|what time|the time|time is it) "
)
_DATE = re.compile(
    r" (?:what day|what date|which day|today's date|the date|what's the date|what month|what year) "
)
_REMEMBER = re.compile(r"\b(?:please )?(?:remember|note|don't forget) (?:that |this )?(.+)$", re.I)
_RECALL = re.compile(
    r" (?:what did i (?:tell|ask) you to remember|what do you remember|what have you noted"
    r"|read (?:me )?my notes|my notes) "
)
_COUNT = re.compile(r" (?:ac)?count(?:ing|down)? ")
_BACKWARDS = re.compile(r" (?:backwards?|down|countdown) ")
_SPELL = re.compile(r" (?:spell|spelled|spelling of) (?:the word |the name )?(\w+(?:'\w+)?)")
_GREETING = re.compile(r"^ (?:hello|hi|hey|good (?:morning|afternoon|evening)|greetings)\b")
_HOW_ARE_YOU = re.compile(r" how (?:are|do) you(?: doing| do)? ")
_THANKS = re.compile(r" (?:thank you|thanks|cheers) ")
_BYE = re.compile(r" (?:goodbye|good bye|bye|bye bye|see you|farewell|good night) ")
_BIGGER = re.compile(r" (bigger|larger|greater|more|higher|smaller|less|lower) ")
_YES_NO = re.compile(r"^ (?:yes|yeah|yep|no|nope|sure|right|exactly|correct) $")


def be_quiet(heard: Heard) -> str | None:
    """ "Stop", "that's enough"."""
    return "Okay." if len(heard.words) <= 5 and _BE_QUIET.search(heard.said) else None


def hold_on(heard: Heard) -> str | None:
    """ "Hold on a second": the user wants the floor kept, and no answer."""
    if len(heard.words) <= 7 and _HOLD_ON.search(heard.said):
        return "Sure, take your time."
    return None


def repeat(heard: Heard) -> str | None:
    """ "Say that again"."""
    if _REPEAT.search(heard.said) is None:
        return None
    return heard.memory.last_reply or "I have not said anything yet."


def what_was_said(heard: Heard) -> str | None:
    """ "What did I just say?" """
    if _WHAT_I_SAID.search(heard.said) is None:
        return None
    if heard.memory.last_heard:
        return f"You said: {heard.memory.last_heard}."
    return f"I hear you. You said: {heard.text}."


def repeat_after_me(heard: Heard) -> str | None:
    """ "Repeat after me: ..." """
    if len(heard.words) > 40 or (found := _AFTER_ME.search(heard.said)) is None:
        return None
    wanted = len(found[1].split())
    if found[0].lstrip().startswith("say ") and heard.words[0] not in ("say", "please", "can"):
        return None  # "I say ...", "they say that ..."
    # the words as they were heard, their capitals and commas with them
    told = " ".join(heard.text.split()[-wanted:])
    return f"{told[:1].upper()}{told[1:]}."


def reckon(heard: Heard) -> str | None:
    """ "What is seven times eight?" """
    found = find_sum(heard.words)
    if found is None:
        return None
    if found.value is None:
        return f"{found.asked[:1].upper()}{found.asked[1:]}? I am afraid {found.trouble}."
    return f"{found.asked[:1].upper()}{found.asked[1:]} is {spoken(found.value)}."


def compare(heard: Heard) -> str | None:
    """ "Which is bigger, seven or nine?" """
    found = _BIGGER.search(heard.said)
    numbers = _numbers(heard.words)
    if found is None or len(numbers) != 2 or " or " not in heard.said:
        return None
    first, second = numbers
    if first == second:
        return f"They are the same: {spoken(first)}."
    small = found[1] in ("smaller", "less", "lower")
    better = min(first, second) if small else max(first, second)
    return f"{spoken(better).capitalize()} is {found[1]}."


def count(heard: Heard) -> str | None:
    """ "Count from three to ten", "count down from five"."""
    if _COUNT.search(heard.said) is None:
        return None
    numbers = [int(n) for n in _numbers(heard.words) if n.denominator == 1]
    if not numbers:
        return None
    down = _BACKWARDS.search(heard.said) is not None
    if len(numbers) >= 2:
        first, last = numbers[:2]
    else:
        first, last = (numbers[0], 1) if down or " from " in heard.said else (1, numbers[0])
    if down and first < last:
        first, last = last, first
    step = 1 if last >= first else -1
    if abs(last - first) >= MOST_COUNTED:
        return (
            f"From {spoken(first)} to {spoken(last)} is a long way: "
            f"I count {spoken(MOST_COUNTED)} numbers at most."
        )
    row = [spoken(n) for n in range(first, last + step, step)]
    return f"{', '.join(row).capitalize()}."


def tell_time(heard: Heard) -> str | None:
    """ "What time is it?" """
    if _TIME.search(heard.said) is None:
        return None
    hour, minute = heard.now.hour, heard.now.minute
    part = _part_of_day(hour)
    clock = spoken(hour % 12 or 12)
    if minute == 0:
        return f"It is {clock} o'clock {part}."
    return f"It is {clock} {'oh ' if minute < 10 else ''}{spoken(minute)} {part}."


def tell_date(heard: Heard) -> str | None:
    """ "What day is it today?" """
    if _DATE.search(heard.said) is None:
        return None
    day, name = heard.now, "Today"
    if " tomorrow" in heard.said:
        day, name = day + timedelta(days=1), "Tomorrow"
    elif " yesterday" in heard.said:
        day, name = day - timedelta(days=1), "Yesterday"
    century, years = divmod(day.year, 100)
    year = f"{spoken(century)} {'oh ' if years < 10 else ''}{spoken(years)}"
    joint = "was" if name == "Yesterday" else "is"
    return f"{name} {joint} {day:%A}, {day:%B} {_ordinal(day.day)}, {year}."


def learn_name(heard: Heard) -> str | None:
    """ "My name is Ada"."""
    found = _MY_NAME.search(heard.text) or _I_AM.search(heard.text)
    if found is None or found[1].lower() in _NOT_NAMES or " what " in heard.said:
        return None
    heard.memory.user_name = found[1][0].upper() + found[1][1:]
    return f"Nice to meet you, {heard.memory.user_name}."


def recall_name(heard: Heard) -> str | None:
    """ "What is my name?" """
    if _ASK_MY_NAME.search(heard.said) is None:
        return None
    if heard.memory.user_name:
        return f"You are {heard.memory.user_name}."
    return "You have not told me your name yet."


def own_name(heard: Heard) -> str | None:
    """ "Who are you?" """
    if _ASK_YOUR_NAME.search(heard.said) is None:
        return None
    return "I am a small voice made of rules, and I run on this server's processor."


def can_do(heard: Heard) -> str | None:
    """ "What can you do?" """
    if len(heard.words) > 9 or _CAN_DO.search(heard.said) is None:
        return None
    return (
        "I can tell the time and the date, do sums, count, spell, remember your name and notes, "
        "and repeat what you or I said. Interrupt me whenever you like."
    )


def remember(heard: Heard) -> str | None:
    """ "Remember that the key is under the mat"."""
    found = _REMEMBER.search(heard.text)
    if found is None or gist.is_question(heard.text):
        return None
    note = gist.reported(found[1])
    heard.memory.note(note)
    return f"I will remember that {note}."


def recall(heard: Heard) -> str | None:
    """ "What did I ask you to remember?" """
    if _RECALL.search(heard.said) is None:
        return None
    if not heard.memory.notes:
        return "You have not asked me to remember anything yet."
    return f"I remember that {', and that '.join(heard.memory.notes)}."


def spell(heard: Heard) -> str | None:
    """ "How do you spell rhythm?" """
    found = _SPELL.search(heard.said)
    if found is None or found[1] in ("it", "that", "this"):
        return None
    return f"{found[1].capitalize()} is spelled {', '.join(found[1].upper().replace(chr(39), ''))}."


def small_talk(heard: Heard) -> str | None:
    """Greetings, thanks, farewells."""
    name = f", {heard.memory.user_name}" if heard.memory.user_name else ""
    if _HOW_ARE_YOU.search(heard.said):
        return f"I am well, thank you{name}. What can I do for you?"
    if len(heard.words) > 5:
        return None
    if _BYE.search(heard.said):
        return f"Goodbye{name}."
    if _THANKS.search(heard.said):
        return f"You are welcome{name}."
    if _GREETING.search(heard.said):
        return f"Hello{name}. What can I do for you?"
    return None


def agree(heard: Heard) -> str | None:
    """A bare "yes" or "no", which answers a question that nobody asked."""
    return f"{heard.words[0].capitalize()}. Go on." if _YES_NO.search(heard.said) else None


RULES: Final[tuple[Rule, ...]] = (
    be_quiet,
    hold_on,
    repeat,
    recall,
    what_was_said,
    remember,
    repeat_after_me,
    count,
    reckon,
    compare,
    tell_time,
    tell_date,
    recall_name,
    own_name,
    learn_name,
    spell,
    can_do,
    small_talk,
    agree,
)


def _numbers(words: list[str]) -> list[Fraction]:
    found, at = [], 0
    while at < len(words):
        number = read_number(words, at)
        if number is None:
            at += 1
        else:
            found.append(number.value)
            at = number.end
    return found


def _part_of_day(hour: int) -> str:
    if 5 <= hour < 12:
        return "in the morning"
    if 12 <= hour < 18:
        return "in the afternoon"
    return "in the evening" if 18 <= hour < 22 else "at night"


def _ordinal(day: int) -> str:
    if day in _ORDINALS:
        return _ORDINALS[day]
    if day > 20 and day % 10 in _ORDINALS:
        return f"{spoken(day - day % 10)}-{_ORDINALS[day % 10]}"
    text = spoken(day)
    if "-" in text:
        return f"{text}th"
    return text.removesuffix("y") + "ieth" if text.endswith("y") else f"{text}th"
