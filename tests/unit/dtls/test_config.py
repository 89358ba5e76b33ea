from __future__ import annotations

import pytest

from warp.crypto import NamedGroup
from warp.dtls import CipherSuite, DtlsConfig, DtlsVersion
from warp.errors import InvalidConfig


def test_defaults():
    config = DtlsConfig()
    assert config.versions[0] is DtlsVersion.DTLS13
    assert set(config.usable_groups()) <= set(config.groups)
    assert config.mtu == 1200
    assert not config.require_cookie
    assert not config.early_data


@pytest.mark.parametrize(
    "wrong",
    [
        {"versions": ()},
        {"versions": (0x0303,)},
        {"groups": (), "share_groups": ()},
        {"groups": (NamedGroup.X25519,)},  # share_groups has more
        {"suites": (CipherSuite.AES_128_GCM_SHA256,)},  # nothing for 1.2
        {"mtu": 100},
        {"mtu": 1 << 20},
        {"initial_rto_s": 0.0},
        {"initial_rto_s": 20.0},
    ],
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(InvalidConfig):
        DtlsConfig(**wrong)
