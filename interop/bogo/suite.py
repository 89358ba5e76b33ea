"""Runs the runner on some tests and sorts what comes of them.

Called by the command. The runner starts launchers; this process is their zygote meanwhile, so it
has no threads.

    run_tests(runner, names) ─▶ Verdicts: name ─▶ passed, or how it failed
    judge(expectations, verdicts) ─▶ Results by Outcome
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from interop.bogo import shim
from interop.bogo.build import Runner
from interop.bogo.expectations import Expectations
from interop.bogo.zygote import Zygote
from warp.crypto import supported_groups
from warp.dtls.acks import MAX_LISTED

_POLL_S = 0.1
_STATUS = re.compile(r"^(PASSED|FAILED|UNIMPLEMENTED) \(([^)\n]*)\)$", re.MULTILINE)
_LOCAL_ERROR = re.compile(r'local error "((?:[^"\\]|\\.)*)"')


class Verdict(NamedTuple):
    """What the runner says of one test; `error` is its own side of a failure."""

    passed: bool
    error: str
    text: str


class Outcome(Enum):
    """What we make of it."""

    GREEN = "green"
    RESUMPTION = "green until a session should be resumed"
    DIFFERENT = "ended as it should instead"
    FAILED = "failed"


class Result(NamedTuple):
    """One test, judged."""

    name: str
    outcome: Outcome
    text: str


def run_tests(
    runner: Runner, names: Iterable[str], errors: Mapping[str, str], *, workers: int
) -> dict[str, Verdict]:
    """Run these tests and return what the runner says of each; one without a word is missing.

    `errors` are texts of ours by those of BoringSSL that a failure is recognised by.
    """
    with tempfile.TemporaryDirectory(prefix="warp-bogo-") as place:
        folder = Path(place)
        config, output = folder / "config.json", folder / "output"
        settings = {
            "AllCurves": list(map(int, supported_groups())),
            "MaxACKBuffer": MAX_LISTED,
            "ErrorMap": dict(errors),
        }
        config.write_text(json.dumps(settings))
        with Zygote(folder, shim.main) as zygote, output.open("wb") as sink:
            process = subprocess.Popen(
                [
                    str(runner.program),
                    "-shim-path", str(zygote.program),
                    "-shim-config", str(config),
                    "-num-workers", str(workers),
                    "-test", ";".join(names),
                    "-pipe",
                ],
                cwd=runner.folder,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )  # fmt: skip
            try:
                while process.poll() is None:
                    if select.select([zygote], [], [], _POLL_S)[0]:
                        zygote.serve()
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        return read_verdicts(output.read_text(errors="replace"))


def read_verdicts(output: str) -> dict[str, Verdict]:
    """Return the verdicts out of what the runner prints."""
    found = list(_STATUS.finditer(output))
    verdicts: dict[str, Verdict] = {}
    for index, match in enumerate(found):
        end = found[index + 1].start() if index + 1 < len(found) else len(output)
        text = output[match.end() : end].strip()
        error = _LOCAL_ERROR.search(text)
        status, name = match.groups()
        if status == "UNIMPLEMENTED":
            text = f"not implemented by the shim\n{text}"
        verdicts[name] = Verdict(status == "PASSED", error[1] if error else "", text)
    return verdicts


def judge(
    expectations: Expectations, names: Iterable[str], verdicts: Mapping[str, Verdict]
) -> list[Result]:
    """Compare what came of the tests with what was expected."""
    return [Result(name, *_judge(expectations, name, verdicts.get(name))) for name in names]


def _judge(expectations: Expectations, name: str, verdict: Verdict | None) -> tuple[Outcome, str]:
    if verdict is None:
        return Outcome.FAILED, "the runner ended without a word about it"
    instead = expectations.instead_of_passing(name)
    if verdict.passed:
        if instead is not None:
            return Outcome.FAILED, f"it passed, though expected to end with {instead.error!r}"
        return Outcome.GREEN, ""
    if instead is not None and verdict.error == instead.error:
        return Outcome.DIFFERENT, instead.reason
    if verdict.error == expectations.resumption.error:
        return Outcome.RESUMPTION, expectations.resumption.reason
    return Outcome.FAILED, verdict.text
