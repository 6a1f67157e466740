"""Bounds of the catalogue, each passed by one; and queries of any form."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conformance.ckan_support import Site

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.packages import Between, LoadJob, Node, Pattern, Value, Words
from thalweg.doors.ckan import catalogue, describing, groups, organizations, search_packages, tags, users
from thalweg.doors.ckan.package_query import (
    MAX_NESTING,
    MAX_QUERY,
    MAX_TERMS,
    Query,
    QueryError,
    instant_of,
    read_sort,
)
from thalweg.services import packages, table_jobs

PIECES = st.one_of(
    st.sampled_from(
        'AND OR NOT && || + - ! ( ) [ ] { } TO * ? : " \\ ^2 ~ a title: tags: '
        "metadata_modified: NOW-1DAY name:[a TO b] "
        '"a b" *:* {!x} NOW/DAY \x00 é vocab_x: private:true'.split(" ")
    ),
    st.text(max_size=5),
)


@given(st.lists(PIECES, max_size=15).map(" ".join), st.booleans())
def test_any_query_is_read_or_refused(text: str, lenient: bool) -> None:
    try:
        found = Query(text, {"x": "y"}, lenient=lenient)
    except QueryError:
        return
    for node in leaves(found.node):
        assert isinstance(node, Words | Pattern | Value | Between)


def leaves(node: Node) -> Iterator[Node]:
    inner = getattr(node, "parts", None)
    if inner is None:
        part = getattr(node, "part", None)
        inner = (part,) if part is not None else ()
        if not inner:
            yield node
    for item in inner:
        yield from leaves(item)


@given(st.text(max_size=40))
def test_any_sort_and_instant_is_read_or_refused(text: str) -> None:
    for read in (read_sort, instant_of):
        with suppress(QueryError):
            assert read(text) is not None


@pytest.mark.parametrize(
    ("text", "us"),
    [("1970-01-02T00:00:00Z", 86_400_000_000), ("1970-01-02T12:30:00.5Z/DAY", 86_400_000_000),
     ("1970-01-01T00:00:01+01:00", -3_599_000_000), ("1970-01-01T00:00:00Z+2HOURS", 7_200_000_000)],
)  # fmt: skip
def test_instants(text: str, us: int) -> None:
    assert instant_of(text) == us


def test_queries_beyond_measure_are_refused() -> None:
    Query("(" * (MAX_NESTING - 1) + "a:b" + ")" * (MAX_NESTING - 1), {})
    for text in (
        "(" * MAX_NESTING + "a:b" + ")" * MAX_NESTING, "NOT " * (MAX_NESTING + 1) + "a:b",
        "a:b " * (MAX_TERMS + 1), "a" * (MAX_QUERY + 1),
    ):  # fmt: skip
        with pytest.raises(QueryError):
            Query(text, {})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("ckan"))
    made.act("package_create", name="one")
    yield made
    made.close()


def test_descriptions_beyond_measure_are_named(site: Site) -> None:
    many = [{"name": f"group-{n}"} for n in range(describing.MAX_GROUPS + 1)]
    assert "groups" in site.error("package_create", name="too-much", groups=many)
    assert "title" in site.error("package_create", name="too-much", title="x" * (describing.MAX_TEXT + 1))
    assert "tags" in site.error("package_create", name="too-much", tags=[{"name": "x" * (packages.MAX_TAG + 1)}])
    extras = [{"key": f"k{n}", "value": ""} for n in range(groups.MAX_GROUP_EXTRAS + 1)]
    assert "extras" in site.error("group_create", name="too-much", extras=extras)
    members = [{"name": f"u{n}"} for n in range(groups.MAX_USERS + 1)]
    assert "users" in site.error("group_create", name="too-much", users=members)
    words = [{"name": f"tag {n}"} for n in range(packages.MAX_VOCABULARY + 1)]
    assert "tags" in site.error("vocabulary_create", name="too-much", tags=words)
    assert site.act("group_list") == site.act("vocabulary_list") == []


def test_searches_of_packages_beyond_measure(site: Site) -> None:
    fields: Any = {"facet.field": ["a"] * (search_packages.MAX_FACETS + 1)}
    assert "facet.field" in site.error("package_search", **fields)
    filters = ["*:*"] * (search_packages.MAX_FILTERS + 1)
    assert site.act("package_search", 400, fq_list=filters)["__type"] == "Search Query Error"
    terms = ["name:a"] * (catalogue.MAX_TERMS + 1)
    assert "query" in site.error("resource_search", query=terms)
    # Lists are cut.
    assert site.act("package_search", rows=search_packages.MAX_ROWS + 1)["count"] == 1
    assert site.act("current_package_list_with_resources", limit=catalogue.MAX_FOUND + 1)[0]["name"] == "one"
    limit: Any = {"facet.limit": search_packages.MAX_FACET_VALUES + 1, "facet.field": ["organization"]}
    assert site.act("package_search", **limit)["facets"] == {"organization": {"default": 1}}
    for action in ("group_list", "organization_list", "tag_list"):
        for most in (organizations.MAX_LISTED, tags.MAX_TAGS_LISTED, 1 << 40):
            assert isinstance(site.act(action, limit=most + 1), list)


def test_tokens_end_within_a_lifetime(site: Site) -> None:
    days = users.MAX_LIFETIME_S // 86_400 + 1
    assert site.error("api_token_create", user="root", name="a", expires_in=days) == {
        "expires_in": ["Must be less than 100 years"]
    }


def test_jobs_that_wait_are_bounded(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = site.send(
        "POST", "/api/action/resource_create", data={"package_id": "one"}, files={"upload": ("a.csv", b"a\n1\n")},
        headers={"Authorization": site.token},
    )  # fmt: skip
    resource = answer.json()["result"]["id"]
    monkeypatch.setattr(table_jobs, "MAX_OPEN", 1)
    assert "resource_id" in site.error("xloader_submit", resource_id=resource)
    # An upload is taken all the same.
    answer = site.send(
        "POST", "/api/action/resource_create", data={"package_id": "one"}, files={"upload": ("b.csv", b"a\n1\n")},
        headers={"Authorization": site.token},
    )  # fmt: skip
    assert answer.status_code == 200
    with pytest.raises(InvalidParameter):
        site.application.services.jobs.ask(site.store.table(resource), answer_actor())
    job = site.store.job(site.store.table(resource).id)
    assert isinstance(job, LoadJob)


def answer_actor() -> Any:
    from thalweg.domain.access import Actor

    return Actor("root")
