"""What a Firefox under test is told: a profile of its own, quiet, with paths on loopback.

Nothing here changes what it says on the wire: DTLS versions and groups, ICE and SCTP are those that
its user has. Preferences are named as in about:config.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

Preference = bool | int | str

BINARIES = ("firefox-esr", "firefox")

_QUIET: dict[str, Preference] = {
    "app.normandy.enabled": False,
    "app.update.disabledForTesting": True,
    "browser.aboutwelcome.enabled": False,
    "browser.safebrowsing.downloads.enabled": False,
    "browser.safebrowsing.malware.enabled": False,
    "browser.safebrowsing.phishing.enabled": False,
    "browser.safebrowsing.update.enabled": False,
    "browser.sessionstore.resume_from_crash": False,
    "browser.shell.checkDefaultBrowser": False,
    "browser.startup.homepage_override.mstone": "ignore",
    "browser.startup.page": 0,
    "datareporting.policy.dataSubmissionEnabled": False,
    "extensions.update.enabled": False,
    "media.gmp-manager.updateEnabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "network.prefetch-next": False,
    "services.settings.server": "data:,#remote-settings-dummy/v1",
    "toolkit.telemetry.enabled": False,
    "toolkit.telemetry.server": "data:,",
    "toolkit.telemetry.unified": False,
}
_CALLS: dict[str, Preference] = {
    # a microphone without hardware and without a question; its sound is a tone of 1 kHz
    "media.navigator.streams.fake": True,
    # a loudspeaker without hardware: where there is none, Web Audio waits for it forever
    "media.cubeb.force_mock_context": True,
    # a tab in the background gets it too: the question, though never asked, waits for its user
    "media.navigator.permission.disabled": True,
    # allowed, rather than unasked: only a page with the permission may use more than the address
    # of the default route, and so loopback (RFC 8828 section 5.2)
    "permissions.default.microphone": 1,
    "media.autoplay.default": 0,
    "media.autoplay.blocking_policy": 0,
    "media.peerconnection.ice.loopback": True,
    "media.peerconnection.ice.obfuscate_host_addresses": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FirefoxConfig:
    """How one Firefox is started."""

    preferences: Mapping[str, Preference] = field(default_factory=dict)
    """More preferences, e.g. {"media.peerconnection.dtls.version.max": 771}."""
    binary: str | None = None
    """None: the first of `BINARIES` that is installed."""
    environment: Mapping[str, str] = field(default_factory=dict)

    def user_preferences(self) -> str:
        """Return the profile's `user.js`."""
        values = {**_QUIET, **_CALLS, **self.preferences}
        return "".join(
            f"user_pref({json.dumps(name)}, {json.dumps(value)});\n"
            for name, value in values.items()
        )


def write_profile(config: FirefoxConfig, profile: Path) -> None:
    """Fill a new profile."""
    (profile / "user.js").write_text(config.user_preferences())
