"""Lines of CSV as others read them."""

from __future__ import annotations

import io

from thalweg.domain.csv_lines import csv_writer


def test_signs_that_readers_take_for_the_end_of_a_line_are_quoted_whatever_ends_it() -> None:
    for end in ("\n", "\r\n"):
        stream = io.StringIO(newline="")
        csv_writer(stream, delimiter=";", end=end).writerows(
            [["a\rb", "c\nd", "e\r\nf"], ["g;h", 'i"j', "k,l"], [None, "", 1]]
        )
        assert stream.getvalue() == f'"a\rb";"c\nd";"e\r\nf"{end}"g;h";"i""j";k,l{end};;1{end}'
