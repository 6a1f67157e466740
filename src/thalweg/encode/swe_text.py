"""Rows as the text of a swe:DataArray: tokens apart by ``,``, rows by ``@``.

See ``form`` for missing values and escapes. Fields are those of ``record.fields``.
"""

from __future__ import annotations

from thalweg.domain.blocks import Block
from thalweg.domain.selection import Selected
from thalweg.encode.form import SWE
from thalweg.encode.member import Shape
from thalweg.encode.table import rows, rows_plain


def encode_values(
    block: Block, selected: Selected, *, offset_s: int, with_quality: bool = False, shape: Shape | None = None
) -> bytes:
    """The rows of a block, ready to stand between the tags of swe:values; no separator at either end.

    selected      whose block it is; its series tell the columns and their order
    offset_s      zone of the times, seconds east of UTC
    with_quality  each value is followed by its quality index
    shape         what rows show beside values; None: what this block has
    returns       ``time[,begin][,result time][,x,y,z],v1[,q1],v2[,q2]@time,…``, time being the phenomenon end
    """
    return leading_rows(block, selected, shape or Shape.of(block, selected.procedure), offset_s, with_quality)[1:]


def leading_rows(block: Block, selected: Selected, shape: Shape, offset_s: int, with_quality: bool) -> bytes:
    """As ``encode_values``, with a row separator before each row, the first one too."""
    columns = block.columns
    return rows(
        block,
        [columns[series.property_id] for series in selected.series],
        SWE,
        offset_s=offset_s,
        times=shape.times,
        position=shape.position,
        with_quality=with_quality,
    )


def encode_values_plain(
    block: Block, selected: Selected, *, offset_s: int, with_quality: bool = False, shape: Shape | None = None
) -> bytes:
    """The same as ``encode_values``, one value after another."""
    shape = shape or Shape.of(block, selected.procedure)
    columns = [block.columns[series.property_id] for series in selected.series]
    return rows_plain(
        block,
        columns,
        SWE,
        offset_s=offset_s,
        times=shape.times,
        position=shape.position,
        with_quality=with_quality,
    )[1:]
