"""DTLS layers against every captured datagram, against `warp.dtls`, and against themselves."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.packet import Raw

from tests.captures.pcap import read_pcap
from tests.unit.tools.scapy_layers.support import captured, layers, rebuilt, through_udp
from warp.crypto import NamedGroup
from warp.dtls import extensions as ext
from warp.dtls import messages
from warp.dtls.acks import encode_ack
from warp.dtls.hello import RETRY_REQUEST_RANDOM, ClientHello, ServerHello, decode_client_hello
from warp.dtls.intake import Intake
from warp_tools.scapy_layers import (
    DTLS,
    DTLSAck,
    DTLSAlert,
    DTLSCertificate,
    DTLSCertificateEntry,
    DTLSCertificateVerify,
    DTLSCiphertext,
    DTLSClientHello,
    DTLSClientKeyExchange,
    DTLSCookie,
    DTLSEncryptedExtensions,
    DTLSExtension,
    DTLSFinished,
    DTLSHandshake,
    DTLSHelloVerifyRequest,
    DTLSKeyShare,
    DTLSKeyShares,
    DTLSKeyUpdate,
    DTLSPlaintext,
    DTLSRecordNumber,
    DTLSSelectedGroup,
    DTLSSelectedVersion,
    DTLSServerHello,
    DTLSServerKeyExchange,
    DTLSServerKeyShare,
    DTLSSignatureAlgorithms,
    DTLSSupportedGroups,
    DTLSSupportedVersions,
    DTLSUseSRTP,
)

RANDOM = bytes(range(32))


def test_every_captured_datagram_is_built_again() -> None:
    _, datagrams = captured()
    kinds: Counter[str] = Counter()
    for data in datagrams:
        datagram = DTLS(data)
        kinds.update(type(one).__name__ for one in layers(datagram))
        assert rebuilt(datagram) == data
    assert len(datagrams) > 700
    for layer in (DTLSClientHello, DTLSServerHello):
        assert kinds[layer.__name__] > 15
    for layer in (DTLSCertificate, DTLSServerKeyExchange, DTLSCertificateVerify, DTLSAck):
        assert kinds[layer.__name__]
    assert kinds["DTLSCiphertext"] > 500
    assert kinds["DTLSKeyShares"] > 20
    assert kinds["DTLSServerKeyShare"] > 20
    assert kinds["DTLSSelectedGroup"] == 1  # NSS's HelloRetryRequest asks for a cookie alone


def test_captured_hellos_say_what_the_stack_reads_in_them() -> None:
    seen = 0
    for data in captured()[1]:
        for hello in (one for one in layers(DTLS(data)) if isinstance(one, DTLSClientHello)):
            read = decode_client_hello(rebuilt(hello))
            found = {type(one): one for one in hello.extensions}
            assert hello.random == read.random
            assert tuple(hello.suites) == read.suites
            assert [one.type for one in hello.extensions] == list(read.extensions)
            assert tuple(found[DTLSSupportedGroups].groups) == read.groups()
            assert tuple(found[DTLSSignatureAlgorithms].schemes) == read.schemes()
            if read.srtp_profiles():
                assert tuple(found[DTLSUseSRTP].profiles) == read.srtp_profiles()
            if read.key_shares():
                shares = {one.group: one.key for one in found[DTLSKeyShares].shares}
                assert shares == read.key_shares()
                assert tuple(found[DTLSSupportedVersions].versions) == read.versions()
            seen += 1
    assert seen > 15


def test_the_records_are_those_of_the_stack() -> None:
    """Where records begin and end, for datagrams of several."""
    for data in captured()[1]:
        at, sizes = 0, []
        while at < len(data):
            end = Intake._record_end(data, at)
            assert end is not None
            sizes.append(end - at)
            at = end
        assert [len(rebuilt(one)) for one in DTLS(data).records] == sizes


def test_a_fragment_stays_bytes() -> None:
    first = read_pcap("dtls/bssl_mtu300.pcap")[0].payload
    (record,) = DTLS(first).records
    (message,) = record.content
    assert (message.msg_type, message.fragment_offset) == (1, 0)
    assert message.fragment_length < message.length
    assert isinstance(message.body, Raw)
    assert DTLS(first).summary() == "DTLS client_hello"


CLIENT_HELLO = DTLSClientHello(
    random=RANDOM,
    suites=[0x1301, 0x1303],
    extensions=[
        DTLSSupportedVersions(versions=[0xFEFC]),
        DTLSSupportedGroups(groups=[NamedGroup.X25519MLKEM768, NamedGroup.X25519]),
        DTLSSignatureAlgorithms(schemes=[0x0403, 0x0804]),
        DTLSKeyShares(shares=[DTLSKeyShare(group=0x1D, key=bytes(32))]),
        DTLSUseSRTP(profiles=[7, 1]),
        DTLSCookie(cookie=b"cookie"),
        DTLSExtension(type=0xAAAA, data=b"grease"),
    ],
)
EXTENSIONS = {
    43: ext.encode_versions([0xFEFC]),
    10: ext.encode_u16_list([NamedGroup.X25519MLKEM768, NamedGroup.X25519]),
    13: ext.encode_u16_list([0x0403, 0x0804]),
    51: ext.encode_key_shares({0x1D: bytes(32)}),
    14: ext.encode_use_srtp([7, 1]),
    44: ext.encode_cookie(b"cookie"),
    0xAAAA: b"grease",
}


def test_a_client_hello_from_nothing() -> None:
    built = bytes(CLIENT_HELLO)
    assert (
        built == ClientHello(random=RANDOM, suites=(0x1301, 0x1303), extensions=EXTENSIONS).encode()
    )


def test_a_server_hello_from_nothing() -> None:
    share = ext.encode_key_share(0x1D, bytes(32))
    expected = ServerHello(
        random=RANDOM, suite=0x1301, extensions={43: b"\xfe\xfc", 51: share}
    ).encode()
    built = DTLSServerHello(
        random=RANDOM,
        extensions=[DTLSSelectedVersion(), DTLSServerKeyShare(group=0x1D, key=bytes(32))],
    )
    assert bytes(built) == expected
    again = DTLSServerHello(expected)
    assert [type(one) for one in again.extensions] == [DTLSSelectedVersion, DTLSServerKeyShare]
    assert not again.is_retry_request


def test_a_retry_request_from_nothing() -> None:
    built = DTLSServerHello(
        random=RETRY_REQUEST_RANDOM,
        extensions=[DTLSSelectedVersion(), DTLSSelectedGroup(group=0x17), DTLSCookie(cookie=b"c")],
    )
    extensions = {43: b"\xfe\xfc", 51: b"\0\x17", 44: ext.encode_cookie(b"c")}
    hello = ServerHello(random=RETRY_REQUEST_RANDOM, suite=0x1301, extensions=extensions)
    assert bytes(built) == hello.encode()
    again = DTLSServerHello(hello.encode())
    assert again.is_retry_request
    assert [type(one) for one in again.extensions] == [
        DTLSSelectedVersion,
        DTLSSelectedGroup,
        DTLSCookie,
    ]


def test_hellos_of_dtls12_may_have_no_extensions() -> None:
    bare = DTLSClientHello(random=RANDOM, cookie=b"c", suites=[0xC02B], extensions=[])
    expected = ClientHello(random=RANDOM, cookie=b"c", suites=(0xC02B,), extensions={}).encode()
    assert bytes(bare) == expected[:-2]  # the stack writes the length of nothing
    assert rebuilt(DTLSClientHello(expected)) == expected
    assert rebuilt(DTLSClientHello(expected[:-2])) == expected[:-2]


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (
            DTLSCertificate(
                certificates=[DTLSCertificateEntry(der=b"one"), DTLSCertificateEntry(der=b"2")]
            ),
            messages.encode_certificate12([b"one", b"2"]),
        ),
        (
            DTLSServerKeyExchange(group=0x1D, public=b"key", scheme=0x0403, signature=b"sig"),
            messages.encode_server_key_exchange(
                messages.server_ecdh_parameters(0x1D, b"key"), 0x0403, b"sig"
            ),
        ),
        (DTLSClientKeyExchange(public=b"key"), messages.encode_client_key_exchange(b"key")),
        (
            DTLSCertificateVerify(scheme=0x0804, signature=b"sig"),
            messages.encode_certificate_verify(0x0804, b"sig"),
        ),
        (DTLSKeyUpdate(request=1), messages.encode_key_update(True)),
        (DTLSFinished(verify_data=b"sum"), b"sum"),
        (DTLSHelloVerifyRequest(cookie=b"cookie"), b"\xfe\xff\x06cookie"),
        (
            DTLSEncryptedExtensions(extensions=[DTLSUseSRTP(profiles=[7])]),
            ext.encode_extensions([(14, ext.encode_use_srtp([7]))]),
        ),
        (
            DTLSAck(numbers=[DTLSRecordNumber(epoch=2, sequence=1)]),
            encode_ack([(2, 1)]),
        ),
        (DTLSAlert(level=1, description=0), b"\1\0"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, bytes) else "",
)
def test_messages_are_those_of_the_stack(layer, expected: bytes) -> None:
    assert bytes(layer) == expected
    again = type(layer)(expected)
    assert not again.payload
    assert rebuilt(again) == expected


def test_a_datagram_from_nothing_is_read_by_the_stack() -> None:
    """Type, lengths and header follow from the body; our intake takes it as it is."""
    from warp.dtls.config import DtlsConfig, DtlsRole
    from warp.dtls.context import Context
    from warp.dtls.epochs import EpochTable
    from warp.dtls.reassembly import split_fragments

    built = bytes(DTLS(records=[DTLSPlaintext(content=[DTLSHandshake(body=CLIENT_HELLO)])]))
    intake = Intake(Context(DtlsRole.SERVER, DtlsConfig(), None), EpochTable())
    (record,) = intake.receive(built, 0.0)
    ((kind, length, seq, offset, body, _),), whole = split_fragments(record.content, 0, 9)
    assert (kind, length, seq, offset, whole) == (1, len(body), 0, 0, True)
    assert decode_client_hello(body).random == RANDOM


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (DTLSCiphertext(epoch=2, sequence=0x1234, encrypted=b"e" * 20), "2e12340014" + "65" * 20),
        (DTLSCiphertext(epoch=3, S=0, L=0, sequence=0x34, encrypted=b"ee"), "23346565"),
        (
            DTLSCiphertext(C=1, cid_size=3, connection_id=b"cid", encrypted=b"e"),
            "3f63696400000001" + "65",
        ),
        (DTLSCiphertext(length=9, encrypted=b"e"), "2f0000000965"),
    ],
)
def test_unified_headers(record: DTLSCiphertext, expected: str) -> None:
    assert bytes(record).hex() == expected


def test_several_records_and_one_without_a_length() -> None:
    built = bytes(
        DTLS(
            records=[
                DTLSPlaintext(type=21, content=[DTLSAlert(description=40)]),
                DTLSCiphertext(epoch=2, sequence=7, encrypted=bytes(20)),
                DTLSCiphertext(epoch=3, L=0, S=0, sequence=8, encrypted=bytes(30)),
            ]
        )
    )
    again = DTLS(built)
    assert [len(rebuilt(one)) for one in again.records] == [15, 25, 32]
    assert again.records[0].content[0].description == 40
    assert again.summary() == "DTLS alert + protected + protected"


def test_a_connection_id_needs_its_length() -> None:
    data = bytes(DTLSCiphertext(C=1, cid_size=3, connection_id=b"cid", encrypted=bytes(20)))
    (stranger,) = DTLS(data).records
    assert isinstance(stranger, Raw)
    known = DTLSCiphertext.read(data, cid_size=3)
    assert (known.connection_id, known.encrypted) == (b"cid", bytes(20))


NUMBERS = st.lists(st.integers(0, 0xFFFF), min_size=1, max_size=6)
SHORT = st.binary(max_size=30)
CLIENT_EXTENSIONS = st.one_of(
    st.builds(DTLSSupportedVersions, versions=NUMBERS),
    st.builds(DTLSSupportedGroups, groups=NUMBERS),
    st.builds(DTLSSignatureAlgorithms, schemes=NUMBERS),
    st.builds(
        DTLSKeyShares,
        shares=st.lists(
            st.builds(DTLSKeyShare, group=st.integers(0, 0xFFFF), key=SHORT), max_size=3
        ),
    ),
    st.builds(DTLSUseSRTP, profiles=NUMBERS, mki=SHORT),
    st.builds(DTLSCookie, cookie=SHORT),
    st.builds(DTLSExtension, type=st.integers(100, 0xFF00), data=SHORT),
)
BODIES = st.one_of(
    st.builds(
        DTLSClientHello,
        random=st.binary(min_size=32, max_size=32),
        session_id=SHORT,
        cookie=SHORT,
        suites=NUMBERS,
        extensions=st.lists(CLIENT_EXTENSIONS, min_size=1, max_size=5),
    ),
    st.builds(
        DTLSServerHello,
        random=st.binary(min_size=32, max_size=32),
        suite=st.integers(0, 0xFFFF),
        extensions=st.lists(
            st.one_of(
                st.builds(DTLSSelectedVersion, version=st.integers(0, 0xFFFF)),
                st.builds(DTLSSelectedGroup, group=st.integers(0, 0xFFFF)),
                st.builds(DTLSCookie, cookie=SHORT),
            ),
            min_size=1,
            max_size=4,
        ),
    ),
    st.builds(DTLSHelloVerifyRequest, cookie=SHORT),
    st.builds(DTLSFinished, verify_data=SHORT),
    st.builds(DTLSKeyUpdate, request=st.integers(0, 1)),
)
RECORDS = st.one_of(
    st.builds(
        DTLSPlaintext,
        sequence=st.integers(0, (1 << 48) - 1),
        content=st.lists(
            st.builds(DTLSHandshake, message_seq=st.integers(0, 0xFFFF), body=BODIES),
            min_size=1,
            max_size=3,
        ),
    ),
    st.builds(
        DTLSCiphertext,
        S=st.integers(0, 1),
        epoch=st.integers(0, 3),
        sequence=st.integers(0, 255),
        encrypted=SHORT,
    ),
)


@given(st.lists(RECORDS, min_size=1, max_size=4))
def test_what_is_built_is_read_again(records: list) -> None:
    datagram = DTLS(records=records)
    data = bytes(datagram)
    again = DTLS(data)
    assert [type(one) for one in layers(again)] == [type(one) for one in layers(datagram)]
    assert rebuilt(again) == data


@given(st.binary(max_size=120))
def test_any_bytes_are_read_and_built_again(data: bytes) -> None:
    assert through_udp(data) == data
    assert rebuilt(DTLS(data)) == data


@given(st.data())
def test_damaged_datagrams_are_read_and_built_again(data: st.DataObject) -> None:
    whole = bytearray(data.draw(st.sampled_from(captured()[1])))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    assert rebuilt(DTLS(cut)) == cut
