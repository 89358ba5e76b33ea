"""SCTP packets and INIT chunks as bytes.

`PACKETS` were laid out by hand from RFC 9260, 3758, 6525, 8260, 8832 and 9653 by a generator of its
own, whose CRC32c was checked on a packet that another stack had sent: A has tag 11223344, B has
55667788, both port 5000. `INITS` E1, E2 are the examples of draft-hancke-tsvwg-snap-00 section 4;
E4 is libwebrtc's SDP munging test; E7, E8 are an offer and answer of Chromium 152; E3 has the shape
that pion generates; E5, E6 are laid out by hand.
"""

from __future__ import annotations

import base64

TAG_A = 0x11223344
TAG_B = 0x55667788

PACKETS = {
    "V1": "1388138855667788e43c0b0b00030020fffffff00000000000000032030001000000000000040000"
    "63686174",
    "V2": "13881388556677880000000000030020fffffff00000000000000032030001000000000000040000"
    "63686174",
    "V3": "1388138811223344c532270103000010fffffff000500000000000000003001100000001000000000000003"
    "202000000",
    "V4": "13881388556677883fca44dc00030012fffffff1000000010000003368690000",
    "V5": "13881388556677886dc103f000030011fffffff2000000020000003900000000",
    "V6": "1388138811223344b39f897803000018fffffff1000003e80001000100020003fffffff0",
    "V7": "1388138855667788c0151c54c0000010000000020000000500020000",
    "V8": "1388138855667788a9cb468082000016000d0012fffffff000000000fffffff200000000",
    "V9": "138813881122334488656ac4820000100010000cfffffff000000001",
    "V10": "1388138855667788f64de03740020016fffffff300020000000000000000003361620000",
    "V11": "138813885566778898e0b8b940010016fffffff400020000000000000000000163640000",
    "V12": "138813885566778831cc076ac2000010fffffff40002000000000000",
    "V13": "1388138855667788bf7518500400000c0001000800000001",
    "V14": "1388138855667788ff518cfb0600000c000c000762796500",
}

INITS = {
    "E1": "AQAAHols3R0AUAAA/////+B5ZR3AAAAEgAgABoLA",
    "E2": "AQAAHl+zdHQAUAAA/////6Gq3HTAAAAEgAgABoLA",
    "E3": "AQAAHGVPFd8AEAAA/////9tAK2qACAAIgsBAwg==",
    "E4": "AQAAHt6tvu8AUAAA/////96tvu/AAAAEgAgABoLA",
    "E5": "AQAAKBEiM0QAEAAA//////////DAAAAEgAEACAAAAAGACAAIgsBAwg==",
    "E6": "AQAAJlVmd4gAUAAA/////wAAAAHAAAAEgAEACAAAAAGACAAGgsA=",
    "E7": "AQAAHsfExL0AUAAA/////3JvqmbAAAAEgAgABoLA",
    "E8": "AQAAHvFKLX0AUAAA/////4BqNrnAAAAEgAgABoLA",
}

NOT_INITS = {
    "ascii": "Q29va2llTW9uc3Rlcg==",
    "one byte": "AQ==",
    "length beyond the data": "AQIDBAUGBwgJCgsMDQ4PEA==",
    "type 2": "AgAAHgAAAAEAEAAA/////wAAAAfAAAAEgAgABoLA",
    "tag 0": "AQAAHgAAAAAAEAAA/////wAAAAHAAAAEgAgABoLA",
    "a_rwnd 1024": "AQAAHgAAAAEAAAQA/////wAAAAfAAAAEgAgABoLA",
    "length 40 of 30": "AQAAKAAAAAEAEAAA/////wAAAAfAAAAEgAgABoLA",
    "unknown stop parameter": "AQAAJgAAAAEAEAAA/////wAAAAd//wAIAQIDBMAAAASACAAGgsA=",
}

ODD_INITS = {
    "TSN 0": "AQAAHgAAAAEAEAAA/////wAAAADAAAAEgAgABoLA",
    "two pad bytes": "AQAAHgAAAAEAEAAA/////wAAAAfAAAAEgAgABoLAAAA=",
    "unknown skip parameter": "AQAAJgAAAAEAEAAA/////wAAAAe//wAIAQIDBMAAAASACAAGgsA=",
}


def packet(name: str) -> bytes:
    """One of `PACKETS`."""
    return bytes.fromhex(PACKETS[name])


def init(value: str) -> bytes:
    """A value of `a=sctp-init` decoded."""
    return base64.b64decode(value, validate=True)
