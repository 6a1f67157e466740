"""Values of tables: exact decimals in the order of their numbers, and instants as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thalweg.domain.table_values import FieldType, coerce, format_stamp, guess, type_named
from thalweg.store.codec.decimal_key import AFTER, decimal_key, decode_decimal, encode_decimal
from thalweg.store.codec.decimal_sum import sum_decimals

DECIMALS = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=5),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-100, max_value=100),
    st.integers(-(10**40), 10**40).map(Decimal),
    st.sampled_from(
        [Decimal(text) for text in ("0", "0.00", "10", "10.0", "100", "0.1", "-0.1", "1.50", "99", "-99.9")]
    ),
).map(lambda value: coerce(FieldType.NUMERIC, False, str(value)))


@given(DECIMALS)
@example(Decimal("0.000"))
@example(Decimal(1000))
def test_decimals_come_back_as_they_were_written(value: Decimal) -> None:
    assert decode_decimal(encode_decimal(value)).as_tuple() == value.as_tuple()


@pytest.mark.parametrize(
    "blob",
    [
        b"", b"\x82\x80\x01\x02\x00", b"\x81", b"\x81\x80", b"\x81\x80\x01", b"\x81\x80\x01\x02", b"\x81\x80\x01\x00",
        b"\x81\x80\x01\x65\x00", b"\x7f\x7f\xfe\xfd", b"\x7f\x7f\xfe\x01\xff", b"\x81\x80\x01\x02\x00\x80",
        b"\x81\x80\x01\x02\x00\x00\x00\x00\x01", b"1.5",
    ],
)  # fmt: skip
def test_what_is_no_key_is_refused(blob: bytes) -> None:
    with pytest.raises(ValueError, match=r"decimal key|not found"):
        decode_decimal(blob)


@given(st.lists(DECIMALS, max_size=30))
@example([Decimal("99999999999999999.9")] * 30)
@example([Decimal(10**17 - 1).scaleb(-256), Decimal("-1"), Decimal("0.000")])
def test_sums_of_keys_are_exact(values: list[Decimal]) -> None:
    with localcontext(prec=1000):
        total, digits = sum_decimals([encode_decimal(value) for value in values])
        assert total == sum(values, Decimal(0))
    assert digits == max((max(0, -int(value.as_tuple().exponent)) for value in values), default=0)


def test_what_is_no_key_has_no_sum() -> None:
    for blob in (b"\x82\x80\x01\x02\x00", b"\x81\x80\x01\x66\x00", b"\x81\x80\x01\x00\x00", b"1.5"):
        with pytest.raises(ValueError, match=r"decimal key|not found"):
            sum_decimals([encode_decimal(Decimal(3)), blob])


@given(DECIMALS, DECIMALS)
@example(Decimal("1.5"), Decimal("1.50"))
@example(Decimal("-10"), Decimal("-10.0"))
def test_keys_of_decimals_have_the_order_of_the_numbers(a: Decimal, b: Decimal) -> None:
    assert (decimal_key(a) < decimal_key(b)) == (a < b)
    assert (decimal_key(a) == decimal_key(b)) == (a == b)
    # All spellings of a number, and no other number's, lie from its key to before what follows it.
    assert (decimal_key(a) <= encode_decimal(b) < decimal_key(a) + AFTER) == (a == b)


@given(st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999)))
def test_timestamps_are_read_as_they_are_written(value: datetime) -> None:
    us = (value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    text = format_stamp(us)
    assert text == value.isoformat(timespec="microseconds" if value.microsecond % 1000 else "milliseconds")
    assert coerce(FieldType.TIMESTAMP, False, text) == us
    assert coerce(FieldType.TIMESTAMP, False, text + "Z") == us


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("int", (FieldType.INT4, False)),
        ("Double  Precision", (FieldType.FLOAT8, False)),
        ("text[]", (FieldType.TEXT, True)),
        ("_timestamptz", (FieldType.TIMESTAMPTZ, True)),
        ("timestamp with time zone", (FieldType.TIMESTAMPTZ, False)),
        ("json[]", None),
        ("geometry", None),
        ("", None),
    ],
)
def test_types_by_their_names_in_postgresql(text: str, expected: tuple[FieldType, bool] | None) -> None:
    assert type_named(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, FieldType.BOOL), (2**31, FieldType.INT8), (2**63, FieldType.NUMERIC), (Decimal("0.1"), FieldType.FLOAT8),
        (Decimal("0.12345678901234567890123"), FieldType.NUMERIC), ("2020-01-01 10:00", FieldType.TIMESTAMP),
        ("2020-13-01", FieldType.TEXT), ("12 m", FieldType.TEXT),
    ],
)  # fmt: skip
def test_types_are_guessed(value: object, expected: FieldType) -> None:
    assert guess(value) == (expected, False)
