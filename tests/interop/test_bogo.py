"""BoringSSL's own DTLS tests against our DTLS: the families that are worth a gate.

All of them: `python -m interop.bogo --all`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interop.bogo.__main__ import main
from interop.bogo.build import BuildError, Runner, get_runner
from interop.bogo.expectations import BadExpectations, matches, read_expectations
from interop.bogo.options import Unimplemented, parse_options
from interop.bogo.suite import Outcome, judge, read_verdicts
from warp.crypto import NamedGroup
from warp.dtls import DtlsVersion

ROOT = Path(__file__).parents[2]
LIMIT_S = 400.0

pytestmark = pytest.mark.timeout(LIMIT_S + 20)  # the first one may have to build the runner

OUTPUT = """\
Error dispatching connection: shim ID 3 not found
PASSED (Good-DTLS)
FAILED (Resume-DTLS)
unexpected failure: local error "didResume is false, but we expected the opposite", child error
stderr:

FAILED (DuplicateExtensionClient-DTLS-TLS13)
bad error (wanted "" / "decoding"): local error "remote error: illegal parameter"

FAILED (Bad-DTLS)
unexpected failure: local error "remote error: \\"what\\"", child error "exit status 1"
UNIMPLEMENTED (Odd-DTLS)

PASS
"""


@pytest.fixture(scope="session")
def runner() -> Runner:
    """The runner: where it cannot be built, a reason to skip, and to fail under CI=true."""
    try:
        return get_runner()
    except BuildError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{error}\nunder CI=true every peer has to be there")
        pytest.skip(str(error))


@contextlib.contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[subprocess.Popen[str]]:
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.interop
@pytest.mark.slow
def test_the_families_worth_a_gate(runner):
    command = [sys.executable, "-m", "interop.bogo", "--fast"]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True, **streams)
    with ended(process):
        output, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, output
    assert "0 failed" in output


@pytest.mark.interop
@pytest.mark.slow
def test_every_pattern_of_the_expectations_fits_a_test(runner):
    expectations = read_expectations()
    ours = expectations.ours(runner.names)
    groups = [*expectations.instead, *expectations.disabled]
    patterns = [p for group in groups for p in group.patterns]
    patterns += [*expectations.patterns, *expectations.slow, *expectations.fast]
    fitting = {p for p in patterns for name in ours if matches(name, (p,))}
    assert set(patterns) - fitting == set()


def test_each_test_has_one_reason_at_most():
    expectations = read_expectations()
    reasons = [group.reason for group in (*expectations.instead, *expectations.disabled)]
    assert len(set(reasons)) == len(reasons)


def test_what_the_runner_prints_is_read():
    verdicts = read_verdicts(OUTPUT)
    assert [name for name, verdict in verdicts.items() if verdict.passed] == ["Good-DTLS"]
    assert verdicts["Bad-DTLS"].error == 'remote error: \\"what\\"'
    assert "not implemented" in verdicts["Odd-DTLS"].text


def test_verdicts_are_judged_by_what_is_expected():
    verdicts = read_verdicts(OUTPUT)
    names = [*verdicts, "Gone-DTLS", "LargeMessage-DTLS"]
    verdicts["LargeMessage-DTLS"] = verdicts["Good-DTLS"]  # which it must not
    results = judge(read_expectations(), names, verdicts)
    assert {result.name: result.outcome for result in results} == {
        "Good-DTLS": Outcome.GREEN,
        "Resume-DTLS": Outcome.RESUMPTION,
        "DuplicateExtensionClient-DTLS-TLS13": Outcome.DIFFERENT,
        "Bad-DTLS": Outcome.FAILED,
        "Odd-DTLS": Outcome.FAILED,
        "Gone-DTLS": Outcome.FAILED,
        "LargeMessage-DTLS": Outcome.FAILED,
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "tests = 3",
        'tests = []\nslow = []\nfast = []\nresumption = {reason = "without an error"}',
        "not toml",
    ],
)
def test_expectations_that_say_nothing_are_refused(tmp_path, text):
    file = tmp_path / "expectations.toml"
    file.write_text(text)
    with pytest.raises(BadExpectations, match=r"expectations\.toml"):
        read_expectations(file)


COMMAND_LINE = """
    -port 4 -shim-id 7 -ipv6 -server -dtls -cert-file c -key-file k -signing-prefs 2052
    -curves 29 -curves 4588 -max-version 65277 -on-initial-shim-writes-first
    -srtp-profiles SRTP_AES128_CM_SHA1_80:SRTP_AES128_CM_SHA1_32
"""


def test_options_of_a_command_line():
    options = parse_options(COMMAND_LINE.split())
    assert (options.port, options.shim_id, options.ipv6, options.server) == (4, 7, True, True)
    assert options.credentials[0].certificate_file == "c"
    assert options.credentials[0].schemes == [0x0804]
    assert options.groups == [NamedGroup.X25519, NamedGroup.X25519MLKEM768]
    assert options.versions == (DtlsVersion.DTLS12,)
    assert options.srtp_profiles == (1, 2)
    assert options.writes_first


@pytest.mark.parametrize(
    "line",
    ["-psk secret", "-curves 21", "-cert-file a -new-x509-credential -cert-file b", "-nonsense"],
)
def test_what_is_not_known_is_not_implemented(line):
    with pytest.raises(Unimplemented):
        parse_options(line.split())


def test_a_version_range_without_ours():
    assert parse_options(["-max-version", "65279"]).versions == ()
    assert parse_options(["-no-tls13", "-no-tls12"]).versions == ()


@pytest.mark.interop
@pytest.mark.slow  # on a machine that has to build the runner first
def test_a_pattern_that_fits_nothing(runner, capsys):
    assert main(["--test", "Nonsense*"]) == 1
    assert "no test fits" in capsys.readouterr().err
