"""package_search as clients ask it: words, fields, ranges, facets, pages, and who sees what."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.conformance.ckan_support import Site

from thalweg.domain.access import Role, Scope, User

PACKAGES: dict[str, dict[str, Any]] = {
    "po-levels": {
        "title": "Levels of the river Po", "notes": "Hourly water levels since 1920, with floods.",
        "owner_org": "hydro", "groups": [{"name": "water"}], "license_id": "cc-by", "author": "Anna",
        "tags": [{"name": "river"}, {"name": "level"}], "extras": [{"key": "basin", "value": "Po"}],
        "resources": [{"url": "http://example.org/po.csv", "name": "Hourly values"}],
    },
    "rhine-levels": {
        "title": "Levels of the Rhine", "notes": "Daily levels.", "owner_org": "hydro",
        "groups": [{"name": "water"}, {"name": "transport"}], "license_id": "cc-zero",
        "tags": [{"name": "river"}], "extras": [{"key": "basin", "value": "Rhine"}],
        "resources": [{"url": "http://example.org/r.csv"}, {"url": "http://example.org/r.geojson", "format": "geojson"}],
    },
    "air": {
        "title": "Air quality", "notes": "Nothing but ozone.", "tags": [{"name": "air quality"}],
        "resources": [{"url": "http://example.org/air.pdf", "description": "A report on the river bank"}],
    },
    "plans": {"title": "Secret plans of the river", "owner_org": "hydro", "private": True},
    "gone": {"title": "A river that is gone", "owner_org": "hydro"},
}  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("ckan"))
    made.act("organization_create", name="hydro", title="Hydrology")
    for name in ("water", "transport"):
        made.act("group_create", name=name, title=name.capitalize())
    for name, described in PACKAGES.items():
        made.act("package_create", name=name, **described)
    made.act("package_delete", id="gone")
    yield made
    made.close()


def found(site: Site, token: str | None = "", **parameters: Any) -> list[str]:
    answer = site.act("package_search", token=token, **parameters)
    names = [package["name"] for package in answer["results"]]
    assert answer["count"] == len(names)
    return sorted(names)


LEVELS = ["po-levels", "rhine-levels"]
ALL = ["air", *LEVELS]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("", ALL), ("*:*", ALL), ("*", ALL),
        ("levels", LEVELS), ("LEVELS", LEVELS), ("level", LEVELS), ("levels po", ["po-levels"]),
        ("river", ALL), ('"river Po"', ["po-levels"]), ('"Po river"', []), ("flood*", ["po-levels"]),
        ("fl?od", ["po-levels"]), ("*zon*", ["air"]), ("oz?n*", ["air"]), ("levels -po", ["rhine-levels"]), ("levels NOT po", ["rhine-levels"]),
        ("levels !po", ["rhine-levels"]), ("+levels +daily", ["rhine-levels"]), ("ozone OR daily", ["air", "rhine-levels"]),
        ("ozone || daily", ["air", "rhine-levels"]), ("levels AND (po OR ozone)", ["po-levels"]),
        ("levels && hourly", ["po-levels"]), ("(ozone OR daily) AND levels", ["rhine-levels"]),
        ("title:levels", LEVELS), ("title:(levels AND rhine)", ["rhine-levels"]), ('title:"air quality"', ["air"]),
        ("name:air", ["air"]), ("name:*-levels", LEVELS), ("notes:ozone", ["air"]), ("tags:river", LEVELS),
        ('tags:"air quality"', ["air"]), ("tags:riv*", LEVELS), ("organization:hydro", LEVELS),
        ("-organization:hydro", ["air"]), ("organization:default", ["air"]), ("groups:transport", ["rhine-levels"]),
        ("license_id:cc-by", ["po-levels"]), ("res_format:CSV", LEVELS), ("res_format:GeoJSON", ["rhine-levels"]),
        ("author:Anna", ["po-levels"]), ("basin:Po", ["po-levels"]), ("extras_basin:Rhine", ["rhine-levels"]),
        ("basin:[Po TO Q]", ["po-levels"]), ("basin:{Po TO *]", ["rhine-levels"]), ("basin:*", LEVELS),
        ("metadata_modified:[NOW-1DAY TO NOW+1HOUR]", ALL), ("metadata_created:[* TO 2001-01-01T00:00:00Z]", []),
        ("metadata_modified:{NOW-1DAY/DAY TO *}", ALL), ("levels^2 po~1", ["po-levels"]),
        ("dataset_type:dataset", ALL), ("state:active", ALL), ("capacity:public", ALL), ("text:ozone", ["air"]),
        # Without a field whatever cannot be read is its words.
        ("levels (po", ["po-levels"]), ("levels AND", []), ("po]", ["po-levels"]), ("http://example.org/r.csv", ["rhine-levels"]),
        ("fl\\-ood", []), ("Pó", ["po-levels"]),
    ],
)  # fmt: skip
def test_queries_find_what_they_say(site: Site, query: str, names: list[str]) -> None:
    assert found(site, q=query) == names


@pytest.mark.parametrize(
    ("query", "names"),
    [
        # The QGIS CKAN browser, frictionless, and ckanapi's search.
        ("(groups:water OR groups:air)", LEVELS), ("organization:hydro", LEVELS), ("+dataset_type:dataset", ALL),
        ("tags:river license_id:cc-by", ["po-levels"]), ('organization:"hydro" +state:active', LEVELS),
    ],
)  # fmt: skip
def test_filter_queries_narrow(site: Site, query: str, names: list[str]) -> None:
    assert found(site, q="*:*", fq=query) == names
    assert found(site, fq_list=[query, "levels"]) == [name for name in names if name in LEVELS]


@pytest.mark.parametrize(
    "query",
    ["title:", "title:[a TO b]", "(a:b", "a:b)", "a:[b", "metadata_modified:yesterday", "{!lucene}a", ":", "a:b AND",
     "name:(((((((((((((((((((((((a)))))))))))))))))))))))", "a:b " * 300, "x" * 9_000, "metadata_modified:a*"],
)  # fmt: skip
def test_queries_that_cannot_be_read_are_refused(site: Site, query: str) -> None:
    error = site.act("package_search", 400, token="", q=query)
    assert error["__type"] == "Search Query Error"


@pytest.mark.parametrize("sort", ["nope desc", "name upwards", "name asc asc", ",".join(["name asc"] * 6)])
def test_sorts_that_cannot_be_read_are_refused(site: Site, sort: str) -> None:
    assert site.act("package_search", 400, sort=sort)["__type"] == "Search Query Error"


def test_order_and_pages(site: Site) -> None:
    def names(**parameters: Any) -> list[str]:
        return [package["name"] for package in site.act("package_search", **parameters)["results"]]

    assert names(sort="name asc") == ALL
    assert names(sort="title desc") == ["po-levels", "rhine-levels", "air"]
    assert names(sort="metadata_created asc") == ["po-levels", "rhine-levels", "air"]
    assert names(sort="name asc", rows=1, start=1) == ["po-levels"]
    # As harvesters page; and by what nobody counts.
    by_id = site.act("package_search", sort="id asc")["results"]
    assert [package["id"] for package in by_id] == sorted(package["id"] for package in by_id)
    assert names(sort="id desc") == [package["name"] for package in by_id[::-1]]
    assert names(sort="views_recent desc, name asc") == ALL
    assert names(q="river")[0] == "po-levels"  # in title, tags and name of a resource's neighbour
    assert names(rows=0) == []
    whole = site.act("package_search", rows=0)
    assert (whole["count"], whole["results"], whole["facets"]) == (3, [], {})
    assert site.error("package_search", rows=-1) == {"rows": ["Must be a natural number"]}
    assert site.act("package_search", q="name:air", fl=["name", "title"])["results"] == [
        {"name": "air", "title": "Air quality"}
    ]


def test_facets_count_what_matches(site: Site) -> None:
    answer = site.act(
        "package_search", token="", rows=0,
        **{"facet.field": ["organization", "groups", "tags", "res_format", "license_id", "basin"]},
    )  # fmt: skip
    assert answer["facets"] == {
        "organization": {"hydro": 2, "default": 1},
        "groups": {"water": 2, "transport": 1},
        "tags": {"river": 2, "air quality": 1, "level": 1},
        "res_format": {"CSV": 2, "GeoJSON": 1, "PDF": 1},
        "license_id": {"cc-by": 1, "cc-zero": 1},
        "basin": {"Po": 1, "Rhine": 1},
    }
    items = answer["search_facets"]["organization"]["items"]
    assert items[0] == {"name": "hydro", "display_name": "Hydrology", "count": 2}
    few = site.act(
        "package_search", q="po", rows=0, **{"facet.field": '["tags"]', "facet.limit": "1", "facet.mincount": "1"}
    )
    assert few["facets"] == {"tags": {"level": 1}}
    assert site.act("package_search", facet="false", **{"facet.field": ["tags"]})["facets"] == {}
    assert "facet.field" in site.error("package_search", **{"facet.field": ["a"] * 21})


def test_private_and_deleted_packages_are_seen_by_those_who_may(site: Site) -> None:
    assert found(site, q="plans", include_private=True) == []
    assert found(site, q="plans", token=None) == []
    assert found(site, q="plans", token=None, include_private="true") == ["plans"]
    site.store.put_user(User("viewer", Role.NOTHING, "$argon2id$none", 1)).result(30)
    token = site.application.services.access.create_token("viewer", "")
    assert found(site, q="plans", token=token, include_private=True) == []
    plans = site.store.package("plans")
    scope = Scope(plans.workspace_id, "package", plans.id)
    site.application.services.access.grant("viewer", scope, Role.VIEWER)
    assert found(site, q="plans", token=token, include_private=True) == ["plans"]
    facets = site.act("package_search", token="", rows=0, include_private=True, **{"facet.field": ["organization"]})
    assert facets["facets"] == {"organization": {"hydro": 2, "default": 1}}
    assert found(site, fq="state:deleted", token="") == []
    assert found(site, fq="state:deleted", token=None) == ["gone"]


def test_search_follows_every_change_at_once(site: Site) -> None:
    site.act("package_create", name="moving", title="Glacier")
    assert found(site, q="glacier") == ["moving"]
    site.act("package_patch", id="moving", title="Moraine", tags=[{"name": "ice"}])
    assert (found(site, q="glacier"), found(site, q="tags:ice")) == ([], ["moving"])
    resource = site.act("resource_create", package_id="moving", url="http://example.org/a.xlsx", name="Boulders")
    assert found(site, q="boulders res_format:XLSX") == ["moving"]
    site.act("resource_patch", id=resource["id"], name="Stones")
    assert (found(site, q="boulders"), found(site, q="stones")) == ([], ["moving"])
    site.act("organization_create", name="geo")
    site.act("package_owner_org_update", id="moving", organization_id="geo")
    assert found(site, q="organization:geo") == ["moving"]
    site.act("resource_delete", id=resource["id"])
    assert (found(site, q="stones"), found(site, q="res_format:XLSX")) == ([], [])
    site.act("dataset_purge", id="moving")
    assert found(site, q="moraine") == []
    assert list(site.store.check()) == []


def test_small_searches(site: Site) -> None:
    assert {item["name"] for item in site.act("package_autocomplete", q="lev", limit=5)} == set(LEVELS)
    assert site.act("package_autocomplete", q="plan", token="") == []
    listed = site.act("current_package_list_with_resources", limit=2)
    assert len(listed) == 2
    assert listed[0]["metadata_modified"] >= listed[1]["metadata_modified"]
    activity = site.act("recently_changed_packages_activity_list", limit=1)[0]
    assert activity["data"]["package"]["id"] == activity["object_id"]
    resources = site.act("resource_search", query="format:csv")
    assert resources["count"] == 2
    assert site.act("resource_search", query=["format:csv", "name:hourly"])["results"][0]["name"] == "Hourly values"
    assert site.error("resource_search", query="colour:red") == {
        "query": ['Field "colour" not recognised in resource_search.']
    }
    assert site.error("resource_search", query="red") == {"query": ["Must be <field>:<value> pair(s)"]}
