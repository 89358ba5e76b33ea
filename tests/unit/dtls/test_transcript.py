from __future__ import annotations

import hashlib

import pytest

from warp.dtls.suites import DtlsVersion
from warp.dtls.transcript import Transcript
from warp.errors import InternalError


@pytest.mark.parametrize("name", ["sha256", "sha384"])
def test_tls_form_in_13(name):
    transcript = Transcript()
    transcript.add(1, 0, b"hello")
    transcript.start(DtlsVersion.DTLS13, name)
    transcript.add(2, 0, b"answer")
    expected = b"\x01\0\0\x05hello\x02\0\0\x06answer"
    assert transcript.digest() == hashlib.new(name, expected).digest()


def test_dtls_header_in_12():
    transcript = Transcript()
    transcript.add(1, 3, b"hello")
    transcript.start(DtlsVersion.DTLS12, "sha256")
    expected = b"\x01\0\0\x05\0\x03\0\0\0\0\0\x05hello"
    assert transcript.raw() == expected
    assert transcript.digest() == hashlib.sha256(expected).digest()


def test_retry_folds_the_first_hello():
    transcript = Transcript()
    transcript.add(1, 0, b"hello")
    transcript.start(DtlsVersion.DTLS13, "sha256")
    transcript.fold_for_retry()
    transcript.add(2, 0, b"retry")
    first = hashlib.sha256(b"\x01\0\0\x05hello").digest()
    expected = b"\xfe\0\0\x20" + first + b"\x02\0\0\x05retry"
    assert transcript.digest() == hashlib.sha256(expected).digest()


def test_verify_request_does_not_count():
    transcript = Transcript()
    transcript.add(1, 0, b"hello")
    transcript.clear()
    transcript.add(1, 1, b"again")
    transcript.start(DtlsVersion.DTLS12, "sha256")
    assert transcript.raw().endswith(b"again")
    assert b"hello" not in transcript.raw()
    with pytest.raises(InternalError):
        transcript.fold_for_retry()
