"""Layers for scapy: STUN with SPED, DTLS 1.2 and 1.3 as far as it is in the clear, SNAP's INIT.

    from warp_tools.scapy_layers import *      # in a scapy session; scapy is an extra: [tools]

    UDP payload ─ bind(port) ─▶ WebRTC ─┬▶ STUN ─▶ STUNDtls, STUNDtlsAck, STUNUsername …
                                        ├▶ DTLS ─▶ DTLSPlaintext ─▶ DTLSHandshake ─▶ hellos …
                                        │     └──▶ DTLSCiphertext
                                        └▶ scapy's RTP
    a=sctp-init ─ SNAPInit.from_sdp ─▶ SNAPInit

To build as well as to dissect: lengths, MESSAGE-INTEGRITY and FINGERPRINT are computed where they
are None.
"""

from __future__ import annotations

from warp_tools.scapy_layers.base import SCAPY_VERSION
from warp_tools.scapy_layers.binding import (
    WebRTC,
    bind,
    unbind,
)
from warp_tools.scapy_layers.dtls import (
    DTLS,
    DTLSAck,
    DTLSAlert,
    DTLSCiphertext,
    DTLSHandshake,
    DTLSPlaintext,
    DTLSRecordNumber,
)
from warp_tools.scapy_layers.extensions import (
    DTLSCookie,
    DTLSExtension,
    DTLSKeyShare,
    DTLSKeyShares,
    DTLSSelectedGroup,
    DTLSSelectedVersion,
    DTLSServerKeyShare,
    DTLSSignatureAlgorithms,
    DTLSSupportedGroups,
    DTLSSupportedVersions,
    DTLSUseSRTP,
)
from warp_tools.scapy_layers.hellos import (
    DTLSCertificate,
    DTLSCertificateEntry,
    DTLSCertificateVerify,
    DTLSClientHello,
    DTLSClientKeyExchange,
    DTLSEncryptedExtensions,
    DTLSFinished,
    DTLSHelloVerifyRequest,
    DTLSKeyUpdate,
    DTLSServerHello,
    DTLSServerKeyExchange,
)
from warp_tools.scapy_layers.snap import (
    SNAPForwardTSN,
    SNAPInit,
    SNAPParameter,
    SNAPSupportedExtensions,
    SNAPZeroChecksum,
)
from warp_tools.scapy_layers.stun import (
    STUN,
    STUNAttribute,
    STUNDtls,
    STUNDtlsAck,
    STUNErrorCode,
    STUNFingerprint,
    STUNIceControlled,
    STUNIceControlling,
    STUNMessageIntegrity,
    STUNNetworkInfo,
    STUNPriority,
    STUNSoftware,
    STUNUseCandidate,
    STUNUsername,
    STUNXorMappedAddress,
)

__all__ = [
    "DTLS",
    "SCAPY_VERSION",
    "STUN",
    "DTLSAck",
    "DTLSAlert",
    "DTLSCertificate",
    "DTLSCertificateEntry",
    "DTLSCertificateVerify",
    "DTLSCiphertext",
    "DTLSClientHello",
    "DTLSClientKeyExchange",
    "DTLSCookie",
    "DTLSEncryptedExtensions",
    "DTLSExtension",
    "DTLSFinished",
    "DTLSHandshake",
    "DTLSHelloVerifyRequest",
    "DTLSKeyShare",
    "DTLSKeyShares",
    "DTLSKeyUpdate",
    "DTLSPlaintext",
    "DTLSRecordNumber",
    "DTLSSelectedGroup",
    "DTLSSelectedVersion",
    "DTLSServerHello",
    "DTLSServerKeyExchange",
    "DTLSServerKeyShare",
    "DTLSSignatureAlgorithms",
    "DTLSSupportedGroups",
    "DTLSSupportedVersions",
    "DTLSUseSRTP",
    "SNAPForwardTSN",
    "SNAPInit",
    "SNAPParameter",
    "SNAPSupportedExtensions",
    "SNAPZeroChecksum",
    "STUNAttribute",
    "STUNDtls",
    "STUNDtlsAck",
    "STUNErrorCode",
    "STUNFingerprint",
    "STUNIceControlled",
    "STUNIceControlling",
    "STUNMessageIntegrity",
    "STUNNetworkInfo",
    "STUNPriority",
    "STUNSoftware",
    "STUNUseCandidate",
    "STUNUsername",
    "STUNXorMappedAddress",
    "WebRTC",
    "bind",
    "unbind",
]
