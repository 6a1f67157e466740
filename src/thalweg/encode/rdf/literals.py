"""Literals as producers write them: instants."""

from __future__ import annotations

from datetime import UTC, datetime

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.time import END_US, MIN_US, SECOND_US, parse_instant

_EPOCH_DAYS = datetime(1970, 1, 1, tzinfo=UTC).toordinal()


def date_time_us(text: str) -> int | None:
    """Microseconds UTC of an ISO date and time, or of a reduced date's first instant.

    text     with or without zone (then taken as UTC), seconds and fraction; digits beyond the microsecond are cut off
    returns  None for what is no instant of the years 1 to 9999
    source   XML Schema part 2, section 3.2.7 (dateTime); ISO 8601:2004 section 4.1-4.3
    """
    if 16 <= len(text) <= 64 and text[10] in "Tt ":
        try:
            moment = datetime.fromisoformat(text)
            us = (
                (moment.toordinal() - _EPOCH_DAYS) * 86400 + moment.hour * 3600 + moment.minute * 60 + moment.second
            ) * SECOND_US + moment.microsecond
            offset = moment.utcoffset()
            if offset is not None:
                us -= (offset.days * 86400 + offset.seconds) * SECOND_US + offset.microseconds
            return us if MIN_US <= us < END_US else None
        except ValueError:
            # 24:00:00 and a comma before the fraction come here, too.
            pass
    try:
        return parse_instant(text.strip(), "")[0]
    except InvalidParameter:
        return None
