from __future__ import annotations

from warp.stun import (
    BINDING,
    ClientTransaction,
    Message,
    MessageClass,
    TransactionConfig,
    TransactionState,
    build_message,
    parse_message,
)

TRANSACTION = bytes(range(12))
REQUEST = build_message(BINDING, MessageClass.REQUEST, TRANSACTION, [], integrity_key=None)


def answer(
    message_class: MessageClass = MessageClass.SUCCESS,
    transaction_id: bytes = TRANSACTION,
    method: int = BINDING,
) -> Message:
    return parse_message(
        build_message(method, message_class, transaction_id, [], integrity_key=None)
    )


def make(initial_rto_s: float = 0.5) -> ClientTransaction:
    return ClientTransaction(REQUEST, BINDING, TransactionConfig(initial_rto_s=initial_rto_s))


def drive(transaction: ClientTransaction, now: float) -> list[tuple[float, bytes]]:
    """Run to the end; returns when what was sent."""
    sent = []
    transaction.start(now)
    while True:
        sent += [(now, datagram) for datagram in transaction.datagrams_to_send(now)]
        deadline = transaction.get_timer()
        if deadline is None:
            return sent
        now = deadline
        transaction.handle_timer(now)
        next_deadline = transaction.get_timer()
        assert next_deadline is None or next_deadline > now


def test_schedule_of_rfc8489() -> None:
    """Section 6.2.1: with RTO 500 ms requests leave at 0, 500, 1500, 3500, 7500, 15500, 31500."""
    transaction = make()
    sent = drive(transaction, 100.0)
    assert [round(t - 100, 3) for t, _ in sent] == [0, 0.5, 1.5, 3.5, 7.5, 15.5, 31.5]
    assert {datagram for _, datagram in sent} == {REQUEST}
    assert transaction.state is TransactionState.TIMED_OUT


def test_gives_up_after_the_final_wait() -> None:
    """Section 6.2.1: 39500 ms with the default values."""
    transaction = make()
    transaction.start(0.0)
    for now in (0.5, 1.5, 3.5, 7.5, 15.5, 31.5):
        transaction.handle_timer(now)
    assert transaction.get_timer() == 39.5
    transaction.handle_timer(39.4)
    assert transaction.state is TransactionState.PENDING
    transaction.handle_timer(39.5)
    assert transaction.state is TransactionState.TIMED_OUT
    assert transaction.get_timer() is None


def test_success_gives_the_round_trip() -> None:
    transaction = make()
    transaction.start(1.0)
    assert transaction.receive_message(answer(), 1.08)
    assert transaction.state is TransactionState.SUCCEEDED
    assert transaction.rtt_s is not None and abs(transaction.rtt_s - 0.08) < 1e-9
    assert transaction.response is not None
    assert transaction.get_timer() is None
    assert transaction.datagrams_to_send(1.1) == []


def test_a_repeated_request_has_no_round_trip() -> None:
    transaction = make()
    transaction.start(1.0)
    transaction.handle_timer(1.5)
    assert transaction.receive_message(answer(), 1.6)
    assert transaction.rtt_s is None


def test_error_response_fails() -> None:
    transaction = make()
    transaction.start(1.0)
    assert transaction.receive_message(answer(MessageClass.ERROR), 1.1)
    assert transaction.state is TransactionState.FAILED


def test_foreign_messages_settle_nothing() -> None:
    transaction = make()
    assert not transaction.receive_message(answer(), 0.5)  # not started
    transaction.start(1.0)
    for message in (
        answer(transaction_id=bytes(12)),
        answer(method=3),
        answer(MessageClass.REQUEST),
        answer(MessageClass.INDICATION),
    ):
        assert not transaction.receive_message(message, 1.1)
    assert transaction.state is TransactionState.PENDING
    assert transaction.receive_message(answer(), 1.2)
    assert not transaction.receive_message(answer(), 1.3)  # settled already


def test_starting_twice_and_early_timers_are_harmless() -> None:
    transaction = make(initial_rto_s=0.1)
    assert transaction.get_timer() is None
    transaction.handle_timer(5.0)
    assert transaction.datagrams_to_send(5.0) == []
    transaction.start(1.0)
    transaction.start(2.0)
    transaction.handle_timer(1.05)
    assert transaction.datagrams_to_send(1.05) == [REQUEST]
    assert transaction.get_timer() == 1.1
