"""The functions that statements may call: those of CKAN's list that every store answers, and a few more."""

from __future__ import annotations

from typing import Final

FUNCTIONS: Final = frozenset(
    (
        "abs acos age array_agg array_append array_cat array_length array_lower array_ndims array_position "
        "array_prepend array_remove array_to_json array_to_string array_upper ascii asin atan atan2 avg bit_and "
        "bit_or bool_and bool_or btrim cardinality cbrt ceil ceiling char_length character_length chr "
        "clock_timestamp concat concat_ws corr cos count covar_pop covar_samp cume_dist date date_bin date_part "
        "date_trunc degrees dense_rank div every exp extract first_value floor format gcd generate_series initcap "
        "isfinite json_agg json_array_elements json_array_elements_text json_array_length json_build_array "
        "json_build_object json_extract_path json_extract_path_text json_object_agg json_object_keys json_typeof "
        "jsonb_agg jsonb_array_elements jsonb_array_elements_text jsonb_array_length jsonb_build_array "
        "jsonb_build_object jsonb_extract_path jsonb_extract_path_text jsonb_object_agg jsonb_object_keys "
        "jsonb_typeof justify_days justify_hours justify_interval lag last_value lcm lead left length ln log "
        "log10 lower lpad ltrim make_date make_interval make_time make_timestamp make_timestamptz max md5 min mod "
        "mode now nth_value ntile num_nonnulls num_nulls octet_length overlay percent_rank percentile_cont "
        "percentile_disc phraseto_tsquery pi plainto_tsquery position pow power quote_ident quote_literal radians "
        "rank regexp_count regexp_like regexp_match regexp_matches regexp_replace regexp_split_to_array "
        "regexp_split_to_table regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy "
        "regr_syy repeat replace reverse right round row_number rpad rtrim scale sign sin split_part sqrt "
        "starts_with statement_timestamp stddev stddev_pop stddev_samp string_agg string_to_array string_to_table "
        "strpos substr substring sum tan text time_bucket timezone to_char to_date to_hex to_json to_jsonb "
        "to_timestamp to_tsquery transaction_timestamp translate trunc unnest upper var_pop var_samp variance "
        "width_bucket"
    ).split()
)
SYNTAX: Final = frozenset(("like_escape", "similar_to_escape"))
"""What PostgreSQL's grammar alone makes calls of."""
