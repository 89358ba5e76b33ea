"""The shared scratch buffers: one a thread at work, never one for two."""

from __future__ import annotations

import threading

from warp.srtp import SrtpContext, SrtpProfile, library

PROFILE = SrtpProfile.AEAD_AES_128_GCM
PACKETS = 400


def talk(material: bytes, wrong: list[int]) -> None:
    ours, theirs = SrtpContext(PROFILE, material, True), SrtpContext(PROFILE, material, False)
    for number in range(PACKETS):
        packet = bytes([0x80, 111]) + number.to_bytes(2, "big") + bytes(8) + material * 4
        if theirs.unprotect_rtp(ours.protect_rtp(packet)) != packet:
            wrong.append(number)


def test_threads_do_not_share_a_buffer() -> None:
    size = PROFILE.keying_material_length
    wrong: list[int] = []
    threads = [
        threading.Thread(target=talk, args=(bytes([number]) * size, wrong)) for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(library.free) <= len(threads) + 1


def test_a_buffer_is_given_back_after_a_packet_that_is_refused() -> None:
    library.free[:] = [library.make_scratch()]
    context = SrtpContext(PROFILE, bytes(PROFILE.keying_material_length), True)
    for _ in range(3):
        try:
            context.unprotect_rtp(bytes([0x80, 111]) + bytes(60))
        except Exception as error:
            assert type(error).__name__ == "Discard"
    assert len(library.free) == 1
