"""Secrets of DTLS 1.2: sides mirror each other; values are compared with OpenSSL in scenarios."""

from __future__ import annotations

import pytest

from warp.crypto import prf12
from warp.dtls.schedule12 import CLIENT_FINISHED, Schedule12, extended_master_secret
from warp.dtls.suites import SUITES12, CipherSuite

CLIENT, SERVER = b"c" * 32, b"s" * 32


@pytest.mark.parametrize("suite", list(SUITES12))
def test_what_one_side_seals_the_other_opens(suite):
    parameters = SUITES12[suite]
    master = extended_master_secret(b"premaster", b"hash" * 8, parameters.hash_name)
    assert len(master) == 48
    schedule = Schedule12(parameters, master, CLIENT, SERVER)
    client_read, client_write = schedule.record_keys(is_client=True)
    server_read, server_write = schedule.record_keys(is_client=False)
    for write, read in ((client_write, server_read), (server_write, client_read)):
        record = write.seal(23, b"data")
        assert read.open(record, 0, len(record))[2] == b"data"


def test_key_block_order():
    """RFC 5246 section 6.3: keys before ivs, the client's first, the server's random first."""
    parameters = SUITES12[CipherSuite.ECDHE_ECDSA_AES_128_GCM_SHA256]
    block = prf12(b"m" * 48, b"key expansion", SERVER + CLIENT, 40, "sha256")
    _, write = Schedule12(parameters, b"m" * 48, CLIENT, SERVER).record_keys(is_client=True)
    read, _ = Schedule12(parameters, b"m" * 48, CLIENT, SERVER).record_keys(is_client=False)
    assert (write._iv, read._iv) == (block[32:36], block[32:36])


def test_labels():
    parameters = SUITES12[CipherSuite.ECDHE_ECDSA_AES_256_GCM_SHA384]
    schedule = Schedule12(parameters, b"m" * 48, CLIENT, SERVER)
    verify = schedule.verify_data(CLIENT_FINISHED, b"h" * 48)
    assert verify == prf12(b"m" * 48, b"client finished", b"h" * 48, 12, "sha384")
    exported = schedule.exporter().export(b"EXTRACTOR-dtls_srtp", 60)
    assert exported == prf12(b"m" * 48, b"EXTRACTOR-dtls_srtp", CLIENT + SERVER, 60, "sha384")
