"""Members to and from the bytes they are kept as.

A body is one zstd frame with content size and checksum: IRI, version-of and timestamp, each ended by a line feed, then
the N-Triples text. Members of a stream are alike, so from the first some hundred on they are compressed with a
dictionary of the stream's own: 0.33 kB in place of 1.4 for a road works member of 7.3 kB, and three times as fast.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import zstandard

from thalweg.domain.bounded import Bounded
from thalweg.domain.errors import DamagedData
from thalweg.domain.streams import MAX_IRI_LENGTH, MAX_MEMBER_BYTES, Member, StoredMember
from thalweg.store.sqlite.connection import Bindings, Row

Query = Callable[[str, Bindings], list[Row]]

LEVEL: Final = 3
"""As quick as level 1 with a dictionary, and 2 % smaller."""
DICTIONARY_BYTES: Final = 32_768
MAX_CODERS: Final = 32
"""Streams and versions whose prepared dictionaries a thread keeps, some 300 KiB each."""
MAX_BODY_BYTES: Final = MAX_MEMBER_BYTES + 8 * MAX_IRI_LENGTH + 1024

DICTIONARY: Final = "SELECT dictionary FROM member_dictionary WHERE stream_id = ? AND version = ?"
SHIFT: Final = 40
"""A member's id is its stream's, shifted by so many bits, plus its sequence."""


def first_id(stream_id: int) -> int:
    """The id that a member with sequence 0 would have."""
    return stream_id << SHIFT


def digest(uuid: str, iri: str) -> int:
    """64 bits of a keyed digest, as SQLite's integers are: with a sign."""
    key = hashlib.blake2b(iri.encode(), digest_size=8, key=uuid.encode()[:64]).digest()
    return int.from_bytes(key, "little", signed=True)


def object_digest(uuid: str, iri: str) -> bytes:
    """128 bits that stand for an object among the versions of a view; no collision is to be expected ever."""
    return hashlib.blake2b(iri.encode(), digest_size=16, key=uuid.encode()[:64]).digest()


class _Coders(threading.local):
    """A thread's own, by stream and version of its dictionary: one must not be used by two threads at a time."""

    def __init__(self) -> None:
        self.compressors: Bounded[tuple[int, int], zstandard.ZstdCompressor] = Bounded(MAX_CODERS)
        self.decompressors: Bounded[tuple[int, int], zstandard.ZstdDecompressor] = Bounded(MAX_CODERS)


class Codec:
    """Compressing and decompressing, with the dictionaries of all streams. Any thread may use it."""

    def __init__(self) -> None:
        self._coders = _Coders()
        self._dictionaries: Bounded[tuple[int, int], bytes] = Bounded(MAX_CODERS)

    # -------------------------------------------------------------- writing

    def encode(self, query: Query, stream_id: int, version: int, members: Iterable[Member]) -> list[bytes]:
        """Bodies of members, with the stream's dictionary of that version."""
        compress = self._compressor(query, stream_id, version).compress
        return [
            compress(b"%b\n%b\n%b\n%b" % (m.iri.encode(), m.version_of.encode(), m.timestamp.encode(), m.text))
            for m in members
        ]

    # -------------------------------------------------------------- reading

    def decode(
        self, query: Query, stream_id: int, rows: Iterable[Row], max_bytes: float = math.inf
    ) -> list[StoredMember]:
        """Members of rows: id, at_us, dictionary, body.

        max_bytes  texts of so many bytes end what is given, after at least one member
        raises     DamagedData that names the member
        """
        base = first_id(stream_id)
        found: list[StoredMember] = []
        version = -1
        size = 0
        for member_id, at_us, used, body in rows:
            if used != version:
                version, decompress = used, self._decompressor(query, stream_id, used).decompress
            try:
                iri, version_of, timestamp, text = decompress(body, max_output_size=MAX_BODY_BYTES).split(b"\n", 3)
                found.append(
                    StoredMember(member_id - base, iri.decode(), version_of.decode(), text, timestamp.decode(), at_us)
                )
                size += len(text)
            except (zstandard.ZstdError, ValueError) as error:
                raise DamagedData(
                    f"Member {member_id - base} of stream {stream_id} is damaged: its checksum or form is wrong."
                ) from error
            if size >= max_bytes:
                break
        return found

    # -------------------------------------------------------------- coders

    def _compressor(self, query: Query, stream_id: int, version: int) -> zstandard.ZstdCompressor:
        known = self._coders.compressors
        key = (stream_id, version)
        return known.recall(key) or known.put(
            key,
            zstandard.ZstdCompressor(
                level=LEVEL, dict_data=self._dictionary(query, *key), write_checksum=True, write_content_size=True
            ),
        )

    def _decompressor(self, query: Query, stream_id: int, version: int) -> zstandard.ZstdDecompressor:
        known = self._coders.decompressors
        key = (stream_id, version)
        return known.recall(key) or known.put(key, zstandard.ZstdDecompressor(dict_data=self._dictionary(query, *key)))

    def _dictionary(self, query: Query, stream_id: int, version: int) -> zstandard.ZstdCompressionDict | None:
        """Raises DamagedData for one that is not there."""
        if not version:
            return None
        key = (stream_id, version)
        content = self._dictionaries.get(key)
        if content is None:
            rows = query(DICTIONARY, key)
            if not rows:
                raise DamagedData(f"Dictionary {version} of the members of stream {stream_id} is not there.")
            content = self._dictionaries.put(key, bytes(rows[0][0]))
        made = zstandard.ZstdCompressionDict(content)
        made.precompute_compress(level=LEVEL)
        return made


def make_dictionary(samples: Sequence[bytes]) -> bytes:
    """The best dictionary for texts like these: trained on half of them or, where they are few or very much alike, some
    of them as such; the other half judges."""
    half, judges = samples[::2], samples[1::2]
    # One that is no trained one must not begin like one.
    candidates = [b"\n" + b"".join(half[-16:])[-DICTIONARY_BYTES:]]
    try:
        candidates.append(zstandard.train_dictionary(DICTIONARY_BYTES, list(half), level=LEVEL).as_bytes())
    except zstandard.ZstdError:
        pass
    return min(candidates, key=lambda dictionary: compressed_size(judges, dictionary))


def sample_of(member: StoredMember) -> bytes:
    """What the body of a member holds, for training."""
    return b"%b\n%b\n%b\n%b" % (
        member.iri.encode(),
        member.version_of.encode(),
        member.timestamp.encode(),
        member.text,
    )


def compressed_size(samples: Sequence[bytes], dictionary: bytes) -> int:
    """Bytes that samples take with a dictionary."""
    made = zstandard.ZstdCompressionDict(dictionary)
    compress = zstandard.ZstdCompressor(level=LEVEL, dict_data=made, write_checksum=True).compress
    return sum(len(compress(sample)) for sample in samples)
