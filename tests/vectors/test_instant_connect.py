"""The ticket's vector, both ways."""

from __future__ import annotations

from instant_connect.attempt import Attempt
from instant_connect.keyring import Epoch, Keyring
from instant_connect.ticket import Grant, Route, seal_ticket
from instant_connect.ufrag import compose_ufrag, open_ufrag, peek_ufrag_route, server_sctp
from tests.vectors import instant_connect as vector

EPOCH = Epoch(vector.KEY_ID, vector.MASTER, vector.CERTIFICATE)
ATTEMPT = Attempt(vector.FINGERPRINT, vector.PAYLOAD_TYPE, vector.NONCE, vector.CLIENT_SCTP)
ROUTE = Route(vector.CELL, vector.HINT, vector.REGION)
GRANT = Grant(vector.EXPIRY, vector.POLICY)


def test_sealing_gives_the_ticket_and_its_password() -> None:
    ticket = seal_ticket(EPOCH, ROUTE, GRANT, vector.VectorEntropy())
    assert ticket == vector.TICKET
    assert EPOCH.password(ticket) == vector.PASSWORD


def test_composing_gives_the_ufrag_and_the_servers_numbers() -> None:
    assert compose_ufrag(vector.TICKET, ATTEMPT) == vector.UFRAG
    assert server_sctp(vector.PASSWORD, vector.UFRAG) == vector.SERVER_SCTP


def test_opening_gives_everything_back() -> None:
    keyring = Keyring(vector.CELL, EPOCH)
    opened = open_ufrag(vector.UFRAG, keyring, float(vector.EXPIRY))
    assert opened.attempt == ATTEMPT
    assert (opened.ticket.route, opened.ticket.grant) == (ROUTE, GRANT)
    assert opened.ticket.raw == vector.TICKET
    assert opened.password == vector.PASSWORD
    block = vector.TICKET[1:17]
    assert peek_ufrag_route(vector.UFRAG, keyring.relay_keys()) == (ROUTE, block)
