"""Leases: one process at a time does background work, and another takes over when it is gone."""

from __future__ import annotations

import os
import secrets
import time
from typing import Final

from thalweg.domain.time import SECOND_US
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.writer import Transaction, Writer

LEASE_US: Final = 30 * SECOND_US

GET: Final = "SELECT holder, expires_us FROM lease WHERE name = ?"
PUT: Final = """
    INSERT INTO lease (name, holder, expires_us) VALUES (?1, ?2, ?3)
    ON CONFLICT (name) DO UPDATE SET holder = ?2, expires_us = ?3"""
DROP: Final = "DELETE FROM lease WHERE name = ? AND holder = ?"


class Lease:
    """One process' claim to a lease by name.

    Time is the machine's: all processes of an embedded store share it. An expiry further ahead than a lease lasts
    comes from a clock that has been set back since, and does not count. What is done under a lease may be done twice
    without harm, so a process that was stopped for longer than its lease harms nothing either.
    """

    def __init__(self, readers: Readers, writer: Writer, name: str, *, length_us: int = LEASE_US) -> None:
        self._readers = readers
        self._writer = writer
        self._name = name
        self._length_us = length_us
        self.holder = f"{os.getpid()}-{secrets.token_hex(8)}"

    def hold(self) -> bool:
        """Whether this process holds the lease now: got, kept, or renewed when a third of it is left.

        raises  StoreUnavailable where it has to be written and cannot be
        """
        now_us = time.time_ns() // 1000
        for holder, expires_us in self._readers.rows(GET, (self._name,)):
            left_us = expires_us - now_us
            if not 0 < left_us <= self._length_us:
                break
            if holder != self.holder:
                return False
            if left_us * 3 > self._length_us:
                return True
        return self._writer.submit(self._take).result()

    def _take(self, tx: Transaction) -> bool:
        for holder, expires_us in tx.rows(GET, (self._name,)):
            if holder != self.holder and 0 < expires_us - tx.now_us <= self._length_us:
                return False
        tx.rows(PUT, (self._name, self.holder, tx.now_us + self._length_us))
        return True

    def release(self, tx: Transaction) -> bool:
        """Let another process take it at once. Says whether none has it now."""
        tx.rows(DROP, (self._name, self.holder))
        return not any(0 < expires_us - tx.now_us <= self._length_us for _, expires_us in tx.rows(GET, (self._name,)))
