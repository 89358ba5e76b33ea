"""What Chromium is told on its command line.

Chromium keeps only the last switch of a name: lists of features and of field trials are merged
here before it sees them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SPED_TRIAL = "WebRTC-IceHandshakeDtls/Enabled/"
SNAP_TRIAL = "WebRTC-Sctp-Snap/Enabled/"

_JOINED = {"--enable-features": ",", "--disable-features": ",", "--enable-blink-features": ","}
_JOINED["--force-fieldtrials"] = ""

_ALWAYS = (
    "--headless",
    "--no-sandbox",  # it cannot be had as root
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--metrics-recording-only",
    # a tab that nobody looks at runs as one that somebody does
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--autoplay-policy=no-user-gesture-required",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--allow-loopback-in-peer-connection",  # else 127.0.0.1 is no candidate
    "--disable-features=WebRtcHideLocalIpsWithMdns",
    "--remote-debugging-port=0",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChromiumConfig:
    """How a Chromium differs from one that somebody has just installed."""

    sped: bool = False
    """The field trial that puts DTLS into connectivity checks; no page can do so."""
    snap: bool = False
    """The field trial that puts the SCTP INIT into descriptions."""
    pqc: bool = True
    """X25519MLKEM768 in DTLS, which is on by default."""
    microphone: Path | None = None
    """A WAV file that the microphone hears again and again; else Chromium's own beeps."""
    origin_trial_key: str | None = None
    """The base64 Ed25519 public key whose origin trial tokens are believed."""
    flags: tuple[str, ...] = ()

    def switches(self) -> list[str]:
        """Return the switches that say so."""
        found = []
        if self.sped:
            found.append(f"--force-fieldtrials={SPED_TRIAL}")
        if self.snap:
            found.append(f"--force-fieldtrials={SNAP_TRIAL}")
        if not self.pqc:
            found.append("--disable-features=WebRtcPqcForDtls")
        if self.microphone is not None:
            found.append(f"--use-file-for-fake-audio-capture={self.microphone}")
        if self.origin_trial_key is not None:
            found.append(f"--origin-trial-public-key={self.origin_trial_key}")
        return [*found, *self.flags]


def command_line(binary: str, profile: Path, config: ChromiumConfig) -> list[str]:
    """Return the whole command, each switch once."""
    plain: list[str] = []
    joined: dict[str, list[str]] = {}
    for switch in (*_ALWAYS, *config.switches()):
        name, _, value = switch.partition("=")
        if name in _JOINED:
            joined.setdefault(name, []).append(value)
        else:
            plain.append(switch)
    lists = [f"{name}={_JOINED[name].join(values)}" for name, values in joined.items()]
    return [binary, *plain, *lists, f"--user-data-dir={profile}", "about:blank"]
