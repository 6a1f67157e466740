"""Rows as the text of a swe:DataArray: tokens apart by ``,``, rows by ``@``.

See ``form`` for missing values and escapes. Fields are those of ``record.fields``.
"""

from __future__ import annotations

from thalweg.domain.blocks import Block
from thalweg.domain.selection import Selected
from thalweg.encode.form import SWE
from thalweg.encode.member import Shape
from thalweg.encode.table import rows


def leading_rows(block: Block, selected: Selected, shape: Shape, offset_s: int, with_quality: bool) -> bytes:
    """The rows of a block, a row separator before each, the first one too.

    selected      whose block it is; its series tell the columns and their order
    shape         what rows show beside values
    offset_s      zone of the times, seconds east of UTC
    with_quality  each value is followed by its quality index
    returns       ``@time[,begin][,result time][,x,y,z],v1[,q1],v2[,q2]@time,…``, time being the phenomenon end
    """
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
