"""Time buckets of the closed pages of what is published: the same for tracks and layers, in tables of their own."""

from __future__ import annotations

from thalweg.domain.published import PageRange
from thalweg.store.sqlite.connection import Readers


def ranges_of(
    readers: Readers, next_bucket: str, ranges: str, part: tuple[int, ...], bucket: str, digits: int, limit: int
) -> tuple[list[str], list[PageRange]]:
    """Buckets below one, and its pages. Each bucket below is one look into the index, whatever is in it.

    next_bucket  statement: the first bucket of a part between two, which are left out
    ranges       statement: the pages of a part from one bucket to another
    """
    reader = readers.mine()
    # Sorts after all digits.
    end = bucket + ":"
    with reader.snapshot():
        below: list[str] = []
        at = bucket
        while digits and len(below) < limit:
            ((found,),) = reader.rows(next_bucket, (*part, at, end))
            if found is None:
                break
            below.append(found[:digits])
            at = found[:digits] + ":"
        pages = reader.rows(ranges, (*part, bucket, bucket if digits else end, limit))
    return below, sorted((PageRange(*row) for row in pages), key=lambda page: page.number)
