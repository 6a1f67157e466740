"""What is tried beside the doors: pages, accounts, health, figures; and the parsers that no door has for itself."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from tests.conformance.policy_support import Aim, Row, Sent, Target
from tests.fuzz.support import DoorFuzz

from thalweg.auth.sessions import csrf_token

FORM = "application/x-www-form-urlencoded"
CSRF = "((csrf))"
"""Put in by the harness: the token of the caller's session."""
FORM_COOKIE = "fuzz-form"
"""A browser may hold any text in the cookie of the form for signing in."""


def _page(path: str, query: Mapping[str, str] | None = None) -> Row:
    return Row("page", lambda target, number: Sent(path, query or {}), Aim.LISTING)


def _form(path: str, **fields: str) -> Row:
    def send(target: Target, number: int) -> Sent:
        csrf = csrf_token(FORM_COOKIE) if path == "/login" else CSRF
        body = urlencode({"csrf": csrf, **fields}, safe="()")
        return Sent(path, method="POST", body=body.encode(), content_type=FORM)

    return Row("page", send, Aim.LISTING)


DOOR = DoorFuzz(
    "common",
    seeds=(
        _page("/"),
        _page("/health/live"),
        _page("/health/ready"),
        _page("/metrics"),
        _page("/login"),
        _page("/account"),
        _page("/static/thalweg.css"),
        _page("/admin/audit"),
        _page("/admin/audit", {"limit": "5", "since": "2014-01-01", "until": "2099-01-01", "user": "x", "object": "x", "action": "x"}),
        _form("/login", name="visitor", password="no such password"),
        _form("/logout"),
        _form("/account/tokens", label="x", days="30", role="viewer", workspace="default"),
        _form("/account/revoke", token="0" * 64),
        _form("/account/password", old="no such password", new="another password", again="another password"),
    ),
    words=(
        "csrf", "name", "password", "old", "new", "again", "label", "days", "role", "workspace", "token", "limit", "since", "until", "user",
        "object", "action", "viewer", "admin", "data-manager", "default", "other", "1", "36500", "next", "id", "visitor", "visitor ", "",
    ),
    parsers={
        "thalweg.auth.credentials": "property/test_credentials.py::test_authorization_headers_are_read_or_refused",
        "thalweg.auth.identity": "property/test_credentials.py::test_a_token_that_was_changed_never_counts",
        "thalweg.auth.sessions": "property/test_credentials.py::test_one_cookie_is_found_among_others",
        "thalweg.auth.tokens": "property/test_credentials.py::test_tokens_are_told_from_one_another",
        "thalweg.auth.throttle": "property/test_credentials.py::test_addresses_fall_into_networks",
        "thalweg.domain.time": "property/test_texts.py::test_instants_come_out_as_they_were_written",
        "thalweg.domain.observations": "property/test_texts.py::test_ids_of_observations_are_read_or_refused",
        "thalweg.encode.xml_input": "property/test_xml_input.py::test_documents_are_read_as_another_parser_does_or_refused",
        "thalweg.encode.sensorml.reading": "property/test_xml_input.py::test_descriptions_of_sensors_are_read_or_refused",
        "thalweg.encode.sensorml.positions": "property/test_xml_input.py::test_descriptions_of_sensors_are_read_or_refused",
        "thalweg.encode.sensorml.components": "property/test_xml_input.py::test_descriptions_of_sensors_are_read_or_refused",
        "thalweg.encode.sensorml.metadata": "property/test_xml_input.py::test_descriptions_of_sensors_are_read_or_refused",
        "thalweg.encode.crs": "property/test_geometry_input.py::test_names_of_crs_are_codes_or_refused",
        "thalweg.services.projection": "property/test_texts.py::test_only_codes_of_epsg_reach_the_library_of_projections",
        "thalweg.services.identity": "property/test_credentials.py::test_documents_of_a_provider_are_read_or_refused",
        "thalweg.server.body": "property/test_texts.py::test_compressed_bodies_come_out_as_they_were_or_are_refused",
        "thalweg.web.forms": "property/test_credentials.py::test_forms_are_read_or_refused",
        "thalweg.loading.mapping": "property/test_loading.py::test_mappings_are_read_or_refused",
        "thalweg.loading.header": "property/test_loading.py::test_files_are_loaded_or_told_what_is_wrong",
        "thalweg.loading.lines": "property/test_loading.py::test_lines_come_out_as_they_were_written",
        "thalweg.loading.rows": "property/test_loading.py::test_files_are_loaded_or_told_what_is_wrong",
        "thalweg.loading.cells": "property/test_loading.py::test_cells_are_read_as_python_reads_them_or_reported",
        "thalweg.loading.times": "property/test_loading.py::test_files_are_loaded_or_told_what_is_wrong",
        "thalweg.loading.zones": "property/test_loading.py::test_zones_are_read_or_refused",
        "thalweg.loading.istsos": "property/test_loading.py::test_names_of_files_are_read_or_not",
        "thalweg.loading.stations_csv": "property/test_loading.py::test_lists_of_stations_are_read_or_refused",
        "thalweg.settings": "property/test_texts.py::test_settings_are_in_their_range_or_refused",
    },
)  # fmt: skip
