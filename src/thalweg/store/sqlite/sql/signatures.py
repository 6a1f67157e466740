"""PostgreSQL's functions and operators: which types they take and give, and how SQLite is asked for them.

A way of asking is a template, ``({0} + {1})``, or the name of a function of ``runtime``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

INTS: Final = ("int2", "int4", "int8")
INSTANTS: Final = ("timestamp", "timestamptz")


@dataclass(frozen=True, slots=True)
class Signature:
    """``any``: a value of any type; ``anyarray``, ``anyelement``: of one type, which ``result`` may be, too.

    tells_kind  whether the function is told the type of the elements before its arguments
    """

    arguments: tuple[str, ...]
    result: str
    how: str
    tells_kind: bool = False


FUNCTIONS: Final[dict[str, list[Signature]]] = {}
OPERATORS: Final[dict[str, list[Signature]]] = {}
"""Of two sides. Comparisons are not among them: they take any two values of a type."""
PREFIXES: Final[dict[str, list[Signature]]] = {}


def _read(text: str) -> Iterator[tuple[list[str], Signature]]:
    """Lines of ``name, name | argument argument -> result | how``; a star before ``how``: it is told the kind."""
    for line in text.strip().splitlines():
        names, types, how = (part.strip() for part in line.split(" | "))
        arguments, _, result = types.partition("->")
        tells = how.startswith("*")
        yield names.split(), Signature(tuple(arguments.split()), result.strip(), how.lstrip("*"), tells)


def _define(into: dict[str, list[Signature]], text: str) -> None:
    for names, signature in _read(text):
        for name in names:
            into.setdefault(name, []).append(signature)


_define(
    FUNCTIONS,
    """
abs | int2 -> int2 | pg_int2(abs({0}))
abs | int4 -> int4 | pg_int4(abs({0}))
abs | int8 -> int8 | abs({0})
abs | float8 -> float8 | abs({0})
abs | numeric -> numeric | pg_numeric_abs
ceil ceiling | float8 -> float8 | pg_float_ceil
ceil ceiling | numeric -> numeric | pg_numeric_ceil
floor | float8 -> float8 | pg_float_floor
floor | numeric -> numeric | pg_numeric_floor
round | float8 -> float8 | pg_float_round
round | numeric -> numeric | pg_numeric_round
round | numeric int4 -> numeric | pg_numeric_round
trunc | float8 -> float8 | pg_float_trunc
trunc | numeric -> numeric | pg_numeric_trunc
trunc | numeric int4 -> numeric | pg_numeric_trunc
sign | float8 -> float8 | pg_float_sign
sign | numeric -> numeric | pg_numeric_sign
sqrt | float8 -> float8 | pg_float_sqrt
sqrt | numeric -> numeric | pg_numeric_sqrt
cbrt | float8 -> float8 | pg_float_cbrt
exp | float8 -> float8 | pg_float_exp
exp | numeric -> numeric | pg_numeric_exp
ln | float8 -> float8 | pg_float_ln
ln | numeric -> numeric | pg_numeric_ln
log log10 | float8 -> float8 | pg_float_log
log log10 | numeric -> numeric | pg_numeric_log
log | numeric numeric -> numeric | pg_numeric_log_to
power pow | float8 float8 -> float8 | pg_float_power
power pow | numeric numeric -> numeric | pg_numeric_power
pi | -> float8 | pg_pi()
degrees | float8 -> float8 | pg_float_degrees
radians | float8 -> float8 | pg_radians
sin | float8 -> float8 | pg_sin
cos | float8 -> float8 | pg_cos
tan | float8 -> float8 | pg_tan
asin | float8 -> float8 | pg_float_asin
acos | float8 -> float8 | pg_float_acos
atan | float8 -> float8 | pg_atan
atan2 | float8 float8 -> float8 | pg_atan2
mod | int2 int2 -> int2 | pg_int_mod
mod | int4 int4 -> int4 | pg_int_mod
mod | int8 int8 -> int8 | pg_int_mod
mod | numeric numeric -> numeric | pg_numeric_mod
div | numeric numeric -> numeric | pg_numeric_quotient
gcd | int4 int4 -> int4 | pg_int4(pg_gcd({0}, {1}))
gcd | int8 int8 -> int8 | pg_gcd
lcm | int4 int4 -> int4 | pg_int4(pg_lcm({0}, {1}))
lcm | int8 int8 -> int8 | pg_lcm
scale | numeric -> int4 | pg_numeric_scale
width_bucket | float8 float8 float8 int4 -> int4 | pg_int4(pg_width_bucket_float({0}, {1}, {2}, {3}))
width_bucket | numeric numeric numeric int4 -> int4 | pg_int4(pg_width_bucket_numeric({0}, {1}, {2}, {3}))
to_hex | int4 -> text | pg_to_hex4
to_hex | int8 -> text | pg_to_hex8
length char_length character_length | text -> int4 | pg_length
octet_length | text -> int4 | pg_octets
lower | text -> text | pg_lower
upper | text -> text | pg_upper
initcap | text -> text | pg_initcap
substr substring | text int4 -> text | pg_substring
substr substring | text int4 int4 -> text | pg_substring
substring | text text -> text | pg_regexp_substr
left | text int4 -> text | pg_left
right | text int4 -> text | pg_right
lpad | text int4 -> text | pg_lpad
lpad | text int4 text -> text | pg_lpad
rpad | text int4 -> text | pg_rpad
rpad | text int4 text -> text | pg_rpad
repeat | text int4 -> text | pg_repeat
replace | text text text -> text | pg_replace
translate | text text text -> text | pg_translate
btrim | text -> text | pg_btrim
btrim | text text -> text | pg_btrim
ltrim | text -> text | pg_ltrim
ltrim | text text -> text | pg_ltrim
rtrim | text -> text | pg_rtrim
rtrim | text text -> text | pg_rtrim
strpos | text text -> int4 | pg_strpos
position | text text -> int4 | pg_strpos
split_part | text text int4 -> text | pg_split_part
reverse | text -> text | pg_reverse
overlay | text text int4 -> text | pg_overlay
overlay | text text int4 int4 -> text | pg_overlay
starts_with | text text -> bool | pg_starts_with
ascii | text -> int4 | pg_ascii_code
chr | int4 -> text | pg_character
md5 | text -> text | pg_md5
quote_literal | text -> text | pg_quote_literal
regexp_like | text text -> bool | pg_regexp_like
regexp_like | text text text -> bool | pg_regexp_like
regexp_count | text text -> int4 | pg_regexp_count
regexp_replace | text text text -> text | pg_regexp_replace
regexp_replace | text text text text -> text | pg_regexp_replace
regexp_match | text text -> _text | pg_regexp_match
regexp_match | text text text -> _text | pg_regexp_match
regexp_split_to_array | text text -> _text | pg_regexp_split
regexp_split_to_array | text text text -> _text | pg_regexp_split
string_to_array | text text -> _text | pg_string_to_array
string_to_array | text text text -> _text | pg_string_to_array
array_to_string | anyarray text -> text | *pg_array_to_string
array_to_string | anyarray text text -> text | *pg_array_to_string
array_length | anyarray int4 -> int4 | pg_array_length
array_upper | anyarray int4 -> int4 | pg_array_length
array_lower | anyarray int4 -> int4 | pg_array_lower
array_ndims | anyarray -> int4 | pg_array_ndims
cardinality | anyarray -> int4 | pg_cardinality
array_position | anyarray anyelement -> int4 | *pg_array_position
array_append | anyarray anyelement -> anyarray | *pg_array_append
array_prepend | anyelement anyarray -> anyarray | *pg_array_prepend
array_remove | anyarray anyelement -> anyarray | *pg_array_remove
array_cat | anyarray anyarray -> anyarray | pg_array_cat
date_part | text timestamp -> float8 | pg_instant_part
date_part | text timestamptz -> float8 | pg_instant_part
date_part | text date -> float8 | pg_day_part
date_part | text time -> float8 | pg_clock_part
date_part | text interval -> float8 | pg_interval_part
extract | text timestamp -> numeric | pg_instant_field
extract | text timestamptz -> numeric | pg_instant_field
extract | text date -> numeric | pg_day_field
extract | text time -> numeric | pg_clock_field
extract | text interval -> numeric | pg_interval_field
date_trunc | text timestamp -> timestamp | pg_truncate
date_trunc | text timestamptz -> timestamptz | pg_truncate
date_trunc | text timestamptz text -> timestamptz | pg_truncate_zoned
date_trunc | text interval -> interval | pg_truncate_interval
date_bin | interval timestamp timestamp -> timestamp | pg_bucket
date_bin | interval timestamptz timestamptz -> timestamptz | pg_bucket
time_bucket | interval timestamp -> timestamp | pg_time_bucket
time_bucket | interval timestamptz -> timestamptz | pg_time_bucket
time_bucket | interval date -> date | pg_day_of(pg_time_bucket({0}, pg_day_instant({1})))
time_bucket | interval timestamp timestamp -> timestamp | pg_bucket
time_bucket | interval timestamptz timestamptz -> timestamptz | pg_bucket
age | timestamp timestamp -> interval | pg_age
age | timestamptz timestamptz -> interval | pg_age
to_char | timestamp text -> text | pg_instant_char
to_char | timestamptz text -> text | pg_instant_char
to_char | numeric text -> text | pg_numeric_char
to_char | int4 text -> text | pg_int_char
to_char | int8 text -> text | pg_int_char
to_char | float8 text -> text | pg_float_char
to_date | text text -> date | pg_to_day
to_timestamp | text text -> timestamptz | pg_to_instant
to_timestamp | float8 -> timestamptz | pg_epoch_instant
make_date | int4 int4 int4 -> date | pg_make_day
make_time | int4 int4 float8 -> time | pg_make_clock
make_timestamp | int4 int4 int4 int4 int4 float8 -> timestamp | pg_make_instant
make_timestamptz | int4 int4 int4 int4 int4 float8 -> timestamptz | pg_make_instant
justify_days | interval -> interval | pg_justify_days
justify_hours | interval -> interval | pg_justify_hours
justify_interval | interval -> interval | pg_justify_interval
isfinite | date -> bool | ({0} IS NOT NULL OR NULL)
isfinite | timestamp -> bool | ({0} IS NOT NULL OR NULL)
isfinite | timestamptz -> bool | ({0} IS NOT NULL OR NULL)
isfinite | interval -> bool | ({0} IS NOT NULL OR NULL)
timezone | text timestamptz -> timestamp | pg_to_zone
timezone | text timestamp -> timestamptz | pg_from_zone
json_array_length | json -> int4 | pg_json_array_length
jsonb_array_length | jsonb -> int4 | pg_json_array_length
json_typeof | json -> text | pg_json_typeof
jsonb_typeof | jsonb -> text | pg_json_typeof
""",
)

_define(
    OPERATORS,
    """
+ | int2 int2 -> int2 | pg_int2({0} + {1})
+ | int4 int4 -> int4 | pg_int4({0} + {1})
+ | int8 int8 -> int8 | pg_int8_add
+ | float8 float8 -> float8 | pg_float8({0} + {1})
+ | numeric numeric -> numeric | pg_numeric_add
+ | date int4 -> date | pg_day_add
+ | int4 date -> date | pg_day_add({1}, {0})
+ | date interval -> timestamp | pg_instant_add(pg_day_instant({0}), {1})
+ | interval date -> timestamp | pg_instant_add(pg_day_instant({1}), {0})
+ | date time -> timestamp | pg_day_clock
+ | timestamp interval -> timestamp | pg_instant_add
+ | interval timestamp -> timestamp | pg_instant_add({1}, {0})
+ | timestamptz interval -> timestamptz | pg_instant_add
+ | interval timestamptz -> timestamptz | pg_instant_add({1}, {0})
+ | time interval -> time | pg_clock_add
+ | interval time -> time | pg_clock_add({1}, {0})
+ | interval interval -> interval | pg_interval_add
- | int2 int2 -> int2 | pg_int2({0} - {1})
- | int4 int4 -> int4 | pg_int4({0} - {1})
- | int8 int8 -> int8 | pg_int8_sub
- | float8 float8 -> float8 | pg_float8({0} - {1})
- | numeric numeric -> numeric | pg_numeric_sub
- | date int4 -> date | pg_day_sub
- | date date -> int4 | pg_days_between
- | date interval -> timestamp | pg_instant_sub(pg_day_instant({0}), {1})
- | timestamp timestamp -> interval | pg_instants_between
- | timestamptz timestamptz -> interval | pg_instants_between
- | timestamp interval -> timestamp | pg_instant_sub
- | timestamptz interval -> timestamptz | pg_instant_sub
- | time time -> interval | pg_clocks_between
- | time interval -> time | pg_clock_sub
- | interval interval -> interval | pg_interval_sub
* | int2 int2 -> int2 | pg_int2({0} * {1})
* | int4 int4 -> int4 | pg_int4({0} * {1})
* | int8 int8 -> int8 | pg_int8_mul
* | float8 float8 -> float8 | pg_float_mul
* | numeric numeric -> numeric | pg_numeric_mul
* | interval float8 -> interval | pg_interval_mul
* | float8 interval -> interval | pg_interval_mul({1}, {0})
/ | int2 int2 -> int2 | pg_int2(pg_int_div({0}, {1}))
/ | int4 int4 -> int4 | pg_int4(pg_int_div({0}, {1}))
/ | int8 int8 -> int8 | pg_int8(pg_int_div({0}, {1}))
/ | float8 float8 -> float8 | pg_float_div
/ | numeric numeric -> numeric | pg_numeric_div
/ | interval float8 -> interval | pg_interval_div
% | int2 int2 -> int2 | pg_int_mod
% | int4 int4 -> int4 | pg_int_mod
% | int8 int8 -> int8 | pg_int_mod
% | numeric numeric -> numeric | pg_numeric_mod
^ | float8 float8 -> float8 | pg_float_power
^ | numeric numeric -> numeric | pg_numeric_power
& | int2 int2 -> int2 | ({0} & {1})
& | int4 int4 -> int4 | ({0} & {1})
& | int8 int8 -> int8 | ({0} & {1})
|| | text text -> text | ({0} || {1})
|| | anyarray anyarray -> anyarray | pg_array_cat
|| | anyarray anyelement -> anyarray | *pg_array_append
|| | anyelement anyarray -> anyarray | *pg_array_prepend
~~ | text text -> bool | pg_like
~~* | text text -> bool | pg_ilike
!~~ | text text -> bool | (NOT pg_like({0}, {1}))
!~~* | text text -> bool | (NOT pg_ilike({0}, {1}))
~ | text text -> bool | pg_matches
~* | text text -> bool | pg_imatches
!~ | text text -> bool | (NOT pg_matches({0}, {1}))
!~* | text text -> bool | (NOT pg_imatches({0}, {1}))
^@ | text text -> bool | pg_starts_with
-> | json text -> json | pg_json_get
-> | json int4 -> json | pg_json_get
-> | jsonb text -> jsonb | pg_json_get
-> | jsonb int4 -> jsonb | pg_jsonb_get
->> | json text -> text | pg_json_get_text
->> | json int4 -> text | pg_json_get_text
->> | jsonb text -> text | pg_jsonb_get_text
->> | jsonb int4 -> text | pg_jsonb_get_text
#> | json _text -> json | pg_json_path
#> | jsonb _text -> jsonb | pg_json_path
#>> | json _text -> text | pg_json_path_text
#>> | jsonb _text -> text | pg_jsonb_path_text
? | jsonb text -> bool | pg_json_has
@> | jsonb jsonb -> bool | pg_json_contains
<@ | jsonb jsonb -> bool | pg_json_contains({1}, {0})
@> | anyarray anyarray -> bool | pg_array_contains
<@ | anyarray anyarray -> bool | pg_array_contains({1}, {0})
&& | anyarray anyarray -> bool | pg_array_overlaps
""".replace("\n|| |", "\nCONCAT |"),
)
OPERATORS["||"] = OPERATORS.pop("CONCAT")
_define(
    OPERATORS,
    """
BOR | int2 int2 -> int2 | ({0} BOR {1})
BOR | int4 int4 -> int4 | ({0} BOR {1})
BOR | int8 int8 -> int8 | ({0} BOR {1})
""",
)
OPERATORS["|"] = [Signature(s.arguments, s.result, s.how.replace("BOR", "|")) for s in OPERATORS.pop("BOR")]

_define(
    PREFIXES,
    """
- | int2 -> int2 | pg_int2(-{0})
- | int4 -> int4 | pg_int4(-{0})
- | int8 -> int8 | pg_int8_sub(0, {0})
- | float8 -> float8 | (-{0})
- | numeric -> numeric | pg_numeric_neg
- | interval -> interval | pg_interval_neg
+ | int2 -> int2 | {0}
+ | int4 -> int4 | {0}
+ | int8 -> int8 | {0}
+ | float8 -> float8 | {0}
+ | numeric -> numeric | {0}
@ | int2 -> int2 | pg_int2(abs({0}))
@ | int4 -> int4 | pg_int4(abs({0}))
@ | int8 -> int8 | abs({0})
@ | float8 -> float8 | abs({0})
@ | numeric -> numeric | pg_numeric_abs
|/ | float8 -> float8 | pg_float_sqrt
~ | int2 -> int2 | (~{0})
~ | int4 -> int4 | (~{0})
~ | int8 -> int8 | (~{0})
""",
)

AGGREGATES: Final[dict[str, list[Signature]]] = {}
"""Templates: ``{d}`` where DISTINCT goes, ``{s}`` after each call, where FILTER and OVER go."""
_define(
    AGGREGATES,
    """
sum | int2 -> int8 | sum({d}{0}){s}
sum | int4 -> int8 | sum({d}{0}){s}
sum | int8 -> numeric | pg_numeric_of_int(sum({d}{0}){s})
sum | float8 -> float8 | pg_float8(sum({d}{0}){s})
sum | numeric -> numeric | pg_numeric_sum({d}{0}){s}
sum | interval -> interval | pg_interval_sum({d}{0}){s}
avg | int2 -> numeric | pg_mean_of_ints(sum({d}{0}){s}, count({d}{0}){s})
avg | int4 -> numeric | pg_mean_of_ints(sum({d}{0}){s}, count({d}{0}){s})
avg | int8 -> numeric | pg_int_mean({d}{0}){s}
avg | float8 -> float8 | pg_float8(avg({d}{0}){s})
avg | numeric -> numeric | pg_numeric_mean({d}{0}){s}
avg | interval -> interval | pg_interval_mean({d}{0}){s}
bool_and every | bool -> bool | min({d}{0}){s}
bool_or | bool -> bool | max({d}{0}){s}
bit_and | int2 -> int2 | pg_bit_and({d}{0}){s}
bit_and | int4 -> int4 | pg_bit_and({d}{0}){s}
bit_and | int8 -> int8 | pg_bit_and({d}{0}){s}
bit_or | int2 -> int2 | pg_bit_or({d}{0}){s}
bit_or | int4 -> int4 | pg_bit_or({d}{0}){s}
bit_or | int8 -> int8 | pg_bit_or({d}{0}){s}
var_samp variance | int2 -> numeric | pg_var_samp({d}{0}){s}
var_samp variance | int4 -> numeric | pg_var_samp({d}{0}){s}
var_samp variance | int8 -> numeric | pg_var_samp({d}{0}){s}
var_samp variance | numeric -> numeric | pg_var_samp({d}{0}){s}
var_samp variance | float8 -> float8 | pg_float_var_samp({d}{0}){s}
var_pop | int2 -> numeric | pg_var_pop({d}{0}){s}
var_pop | int4 -> numeric | pg_var_pop({d}{0}){s}
var_pop | int8 -> numeric | pg_var_pop({d}{0}){s}
var_pop | numeric -> numeric | pg_var_pop({d}{0}){s}
var_pop | float8 -> float8 | pg_float_var_pop({d}{0}){s}
stddev stddev_samp | int2 -> numeric | pg_stddev_samp({d}{0}){s}
stddev stddev_samp | int4 -> numeric | pg_stddev_samp({d}{0}){s}
stddev stddev_samp | int8 -> numeric | pg_stddev_samp({d}{0}){s}
stddev stddev_samp | numeric -> numeric | pg_stddev_samp({d}{0}){s}
stddev stddev_samp | float8 -> float8 | pg_float_stddev_samp({d}{0}){s}
stddev_pop | int2 -> numeric | pg_stddev_pop({d}{0}){s}
stddev_pop | int4 -> numeric | pg_stddev_pop({d}{0}){s}
stddev_pop | int8 -> numeric | pg_stddev_pop({d}{0}){s}
stddev_pop | numeric -> numeric | pg_stddev_pop({d}{0}){s}
stddev_pop | float8 -> float8 | pg_float_stddev_pop({d}{0}){s}
corr | float8 float8 -> float8 | pg_corr({0}, {1}){s}
covar_pop | float8 float8 -> float8 | pg_covar_pop({0}, {1}){s}
covar_samp | float8 float8 -> float8 | pg_covar_samp({0}, {1}){s}
regr_slope | float8 float8 -> float8 | pg_regr_slope({0}, {1}){s}
regr_intercept | float8 float8 -> float8 | pg_regr_intercept({0}, {1}){s}
regr_r2 | float8 float8 -> float8 | pg_regr_r2({0}, {1}){s}
regr_avgx | float8 float8 -> float8 | pg_regr_avgx({0}, {1}){s}
regr_avgy | float8 float8 -> float8 | pg_regr_avgy({0}, {1}){s}
regr_sxx | float8 float8 -> float8 | pg_regr_sxx({0}, {1}){s}
regr_syy | float8 float8 -> float8 | pg_regr_syy({0}, {1}){s}
regr_sxy | float8 float8 -> float8 | pg_regr_sxy({0}, {1}){s}
regr_count | float8 float8 -> int8 | pg_regr_count({0}, {1}){s}
""",
)
