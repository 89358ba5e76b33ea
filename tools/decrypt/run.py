"""`warp pcap decrypt`: from a capture and a key log to what was said.

    Reader ─▶ Sessions ─┬▶ Plain ──▶ PlainFile (pcapng), AudioFiles (Ogg)
                        └▶ Said ───▶ MessageFile (JSON lines)
                        └▶ Outcome of each connection ──▶ Report ──▶ screen, JSON, exit status

One datagram at a time: what is kept is bounded by `sessions`, `data` and `audio`.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from warp_tools.capture.finding import several
from warp_tools.capture.reader import Reader, open_capture
from warp_tools.decrypt.audio import AudioFiles
from warp_tools.decrypt.keylog import KeyLog, read_keylog
from warp_tools.decrypt.messagefile import MessageFile
from warp_tools.decrypt.plain import Plain, Said
from warp_tools.decrypt.plainfile import PlainFile
from warp_tools.decrypt.report import Outcome, Verdict
from warp_tools.decrypt.sessions import Sessions
from warp_tools.failure import CommandRefused, ToolFailure

ALL_OPENED, NOTHING_OPENED, PARTLY_OPENED = 0, 1, 3
_STDIN: Final = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class DecryptConfig:
    """What to read and what to write; a path that is None is not written."""

    capture: Path
    keylog: Path | None = None
    """None: the secrets that a pcapng file carries itself."""
    plain: Path | None = None
    audio: Path | None = None
    messages: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioOutcome:
    """One file of audio."""

    path: Path
    seconds: float
    packets: int
    concealed_s: float
    paused_s: float
    """Nothing was sent for so long: DTX, or a microphone that was off."""
    begins_s: float
    """Counted from the first datagram of the capture."""


@dataclass(slots=True)
class Report:
    """Everything there is to say about one run."""

    outcomes: list[Outcome] = field(default_factory=list)
    audio: list[AudioOutcome] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    packets: Counter[str] = field(default_factory=Counter)
    messages: int = 0
    cut: int = 0
    """Datagrams of which the capture kept only the beginning: they cannot be opened."""

    @property
    def exit_status(self) -> int:
        """0: all opened; 3: not all; 1: nothing."""
        verdicts = {outcome.verdict for outcome in self.outcomes} - {Verdict.CLEAR}
        if not verdicts & {Verdict.OPENED, Verdict.PARTLY}:
            return NOTHING_OPENED
        whole = verdicts == {Verdict.OPENED} and not self.cut
        return ALL_OPENED if whole else PARTLY_OPENED

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values."""
        return {
            "connections": [outcome.to_json() for outcome in self.outcomes],
            "packets": dict(self.packets),
            "messages": self.messages,
            "audio": [
                {
                    "file": str(one.path),
                    "seconds": round(one.seconds, 3),
                    "packets": one.packets,
                    "concealed_s": round(one.concealed_s, 3),
                    "paused_s": round(one.paused_s, 3),
                    "begins_s": round(one.begins_s, 6),
                }
                for one in self.audio
            ],
            "notes": self.notes,
        }


class _Run:
    """One pass over a capture."""

    def __init__(self, config: DecryptConfig, keylog: KeyLog, stack: contextlib.ExitStack) -> None:
        self.sessions = Sessions(keylog)
        self.report = Report()
        self.start_ns = 0
        self._plain = stack.enter_context(PlainFile(config.plain)) if config.plain else None
        self._messages = (
            stack.enter_context(MessageFile(config.messages)) if config.messages else None
        )
        self.audio = AudioFiles(config.audio) if config.audio else None

    def write(self, found: Plain | Said) -> None:
        """Hand on one thing that was opened."""
        if isinstance(found, Said):
            self.report.messages += 1
            if self._messages is not None:
                self._messages.write(found, self.start_ns)
            return
        self.report.packets[found.dissector] += 1
        if self._plain is not None:
            self._plain.write(found)
        if self.audio is not None and found.dissector == "rtp":
            self.audio.receive(found)

    def close_audio(self) -> None:
        """Finish the files of audio and note what is in them."""
        if self.audio is None:
            return
        self.audio.close()
        for stream in self.audio.streams.values():
            writer = stream.writer
            if writer is not None:
                self.report.audio.append(
                    AudioOutcome(
                        path=writer.path,
                        seconds=writer.samples / 48_000,
                        packets=writer.packets,
                        concealed_s=stream.concealed / 48_000,
                        paused_s=stream.paused / 48_000,
                        begins_s=(stream.begins_ns - self.start_ns) / 1e9,
                    )
                )
        if self.audio.overflow:
            self.report.notes.append(
                f"{self.audio.overflow} packets of audio beyond {len(self.audio.streams)} sources "
                "were passed over"
            )


def decrypt(config: DecryptConfig) -> Report:
    """Decrypt a capture. Raises ToolFailure, one line, when it cannot be read or written to."""
    keylog = read_keylog(config.keylog) if config.keylog is not None else KeyLog()
    _check_outputs(config)
    with contextlib.ExitStack() as stack:
        reader = stack.enter_context(open_capture(config.capture))
        run = _Run(config, keylog, stack)
        secrets = _Embedded(reader, keylog)
        for count, datagram in enumerate(reader):
            if not count:
                run.start_ns = datagram.time_ns
            secrets.read()
            for found in run.sessions.receive(datagram):
                run.write(found)
        for found in run.sessions.finish():
            run.write(found)
        run.close_audio()
    report = run.report
    report.outcomes = [Outcome(connection) for connection in run.sessions.connections]
    report.cut = run.sessions.counts["cut"]
    report.notes += _notes(reader, run.sessions, keylog)
    _check_found(config, report, run.sessions, keylog)
    return report


class _Embedded:
    """The secrets that a pcapng file carries in front of the packets they belong to."""

    def __init__(self, reader: Reader, keylog: KeyLog) -> None:
        self._reader = reader
        self._keylog = keylog
        self._read = 0

    def read(self) -> None:
        """Take in what has come since the last time."""
        blob = self._reader.frames.secrets
        if len(blob) == self._read:
            return
        for number, line in enumerate(blob[self._read :].decode("ascii", "replace").splitlines()):
            self._keylog.add_line(line, number + 1)
        self._read = len(blob)


def _check_outputs(config: DecryptConfig) -> None:
    """Refuse to write over what is read, or two outputs into one file."""
    inputs = [path for path in (config.capture, config.keylog) if path and str(path) != _STDIN]
    outputs = [path for path in (config.plain, config.audio, config.messages) if path]
    known = {path.resolve() for path in inputs}
    for path in outputs:
        if path.resolve() in known:
            raise CommandRefused(f"{path} is read or written already: name another file")
        known.add(path.resolve())


def _notes(reader: Reader, sessions: Sessions, keylog: KeyLog) -> list[str]:
    notes = list(reader.notes())
    if keylog.broken:
        are = "is" if keylog.broken == 1 else "are"
        notes.append(
            f"{several(keylog.broken, 'line')} of the key log {are} broken, the first at line "
            f"{keylog.first_broken}"
        )
    if sessions.overflow:
        notes.append(
            f"{sessions.overflow} datagrams of connections beyond {len(sessions.connections)} "
            "were passed over: split the capture"
        )
    given_up = sum(connection.data.given_up for connection in sessions.connections)
    if given_up:
        notes.append(f"{given_up} times too much of unfinished messages was dropped")
    return notes


def _check_found(config: DecryptConfig, report: Report, sessions: Sessions, keylog: KeyLog) -> None:
    """Raise when there was nothing to open, or nothing to open it with."""
    name = "standard input" if str(config.capture) == _STDIN else str(config.capture)
    if not any(outcome.verdict is not Verdict.CLEAR for outcome in report.outcomes):
        counts = sessions.counts
        if counts["cut"]:
            why = f"{counts['cut']} datagrams were cut by the snap length: capture with -s 0"
        elif counts["dtls"] or counts["media"]:
            why = "a handshake in the clear is all there is"
        else:
            why = "it holds no DTLS and no media"
        raise ToolFailure(f"nothing to decrypt in {name}: {why}")
    if not len(keylog):
        raise CommandRefused(f"{name} carries no secrets: give a key log with --keylog")
