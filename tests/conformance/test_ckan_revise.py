"""Parts of packages that are changed by themselves, several packages at once, and what clients ask for by the way."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.ckan_support import Site
from tests.conformance.test_ckan_catalogue import token_of

from thalweg.doors.ckan.listing import MAX_COMPLETED
from thalweg.doors.ckan.revise import MAX_DEPTH, MAX_PARTS
from thalweg.doors.ckan.tags import MAX_WORDS


def made(site: Site, name: str) -> Any:
    return site.act(
        "package_create", name=name, title="T", notes="N", extras=[{"key": "a", "value": "1"}],
        resources=[{"url": "http://example.org/0", "name": "zero"}, {"url": "http://example.org/1", "name": "one"}],
    )  # fmt: skip


def revised(site: Site, name: str, **parameters: Any) -> Any:
    return site.act("package_revise", match={"name": name}, **parameters)["package"]


def test_parts_are_matched_removed_set_and_told(site: Site) -> None:
    before = made(site, "parts")
    second = before["resources"][1]["id"]
    found = revised(site, "parts", update={"title": "U", "resources": [{"description": "d"}]})
    assert (found["title"], found["notes"], found["extras"]) == ("U", "N", before["extras"])
    assert [(r["name"], r["description"]) for r in found["resources"]] == [("zero", "d"), ("one", None)]
    found = revised(
        site, "parts", **{f"update__resources__{second[:6]}__name": "1", "update__resources__0": {"name": "0"}}
    )
    assert [r["name"] for r in found["resources"]] == ["0", "1"]
    more = {"update__resources__extend": [{"url": "http://example.org/2"}], "update__resources__-1__name": "2"}
    found = revised(site, "parts", **more)
    assert [r["name"] for r in found["resources"]] == ["0", "1", "2"]
    found = revised(site, "parts", filter="-resources__1, -extras, -notes")
    assert [r["name"] for r in found["resources"]] == ["0", "2"]
    assert (found["extras"], found["notes"], found["title"]) == ([], None, "U")
    found = revised(site, "parts", filter=["+resources", "-*"], update={"title": "Fresh"})
    assert (found["id"], found["name"], found["title"], len(found["resources"])) == (before["id"], "parts", "Fresh", 2)
    assert revised(site, "parts", include=["+package__name", "-package__*"], match__title="Fresh") == {"name": "parts"}
    # As form fields are: texts, JSON among them.
    assert revised(site, "parts", update='{"notes": "of a form"}')["notes"] == "of a form"


def test_what_is_not_as_the_client_believes_is_not_changed(site: Site) -> None:
    made(site, "believed")
    match = {"name": "believed", "title": "T", "notes": "other", "resources": [{"name": "nil"}, {}, {"name": "x"}]}
    assert site.error("package_revise", match=match, update={"title": "no"}) == {
        "match": ["notes", "resources__0__name", "resources__2"]
    }
    found = site.error(
        "package_revise", match__name="believed", match__resources__0__name="nil", update={"title": "no"}
    )
    assert found == {"match": ["resources__0__name"]}
    assert site.error("package_revise") == {"match__id": "Missing value"}
    assert site.error("package_revise", match={"title": "T"}) == {"match__id": "Missing value"}
    for path, key in (("resources__7__name", "resources__7"), ("title__a", "title__a"), ("resources__x", "x")):
        assert site.error("package_revise", match={"name": "believed"}, **{f"update__{path}": "no"}) == {
            path: [f"Unmatched key {key}"]
        }
    assert site.error("package_revise", match={"name": "believed"}, update={"resources": {"a": 1}}) == {
        "update": ["Expected list for update__resources"]
    }
    assert site.act("package_show", id="believed")["title"] == "T"
    site.act("package_revise", 404, match={"name": "nope"})
    site.act("package_revise", 403, token="", match={"name": "believed"}, update={"title": "no"})


def test_two_that_match_the_same_state_do_not_both_change_it(site: Site) -> None:
    made(site, "raced")
    package = site.store.package("raced")
    site.store.save_package(package, expected=package.generation).result(30)
    with pytest.raises(Exception, match="changed meanwhile"):
        site.store.save_package(package, expected=package.generation).result(30)


def test_revisions_beyond_measure_are_named(site: Site) -> None:
    made(site, "measured")
    match = {"name": "measured"}
    assert "filter" in site.error("package_revise", match=match, filter=["-a"] * (MAX_PARTS + 1))
    assert "update" in site.error("package_revise", match=match, **{"update__" + "a__" * (MAX_DEPTH + 1): 1})
    assert "update" in site.error("package_revise", match=match, update=[1])


def test_packages_are_changed_together(site: Site) -> None:
    site.act("organization_create", name="bulk")
    site.act("organization_create", name="other-bulk")
    ids = [site.act("package_create", name=f"bulk-{i}", owner_org="bulk")["id"] for i in range(2)]
    site.act("bulk_update_private", org_id="bulk", datasets=ids)
    assert [site.act("package_show", id=i)["private"] for i in ids] == [True, True]
    site.act("bulk_update_public", 403, token=token_of(site, "bo"), org_id="bulk", datasets=ids)
    assert "datasets" in site.error("bulk_update_public", org_id="other-bulk", datasets=ids)
    assert "datasets" in site.error("bulk_update_public", org_id="bulk", datasets=["a"] * 1_001)
    site.act("bulk_update_public", org_id="bulk", datasets=ids[:1])
    assert [site.act("package_show", id=i)["private"] for i in ids] == [False, True]
    site.act("bulk_update_delete", org_id="bulk", datasets=ids)
    assert site.act("package_show", id="bulk-0")["state"] == "deleted"


def test_names_are_completed(site: Site) -> None:
    site.act("organization_create", name="complete", title="Über Wasser")
    site.act("group_create", name="complete-group", title="Wasser")
    package = site.act("package_create", name="formats", resources=[{"format": "GeoJSON"}, {"format": "Zarr"}])
    assert [o["name"] for o in site.act("organization_autocomplete", q="ÜBER")] == ["complete"]
    (found,) = site.act("group_autocomplete", q="complete-")
    assert (found["name"], found["title"], set(found)) == ("complete-group", "Wasser", {"id", "name", "title"})
    assert site.act("group_autocomplete", q="complete", limit=0) == []
    for number in range(MAX_COMPLETED + 1):
        site.act("group_create", name=f"many-{number}")
    assert len(site.act("group_autocomplete", q="many", limit=100)) == MAX_COMPLETED
    assert site.act("format_autocomplete", q="ZAR") == ["zarr"]
    assert site.error("format_autocomplete") == {"q": ["Missing value"]}
    site.act("package_delete", id=package["id"])


def test_tags_are_searched_by_several_texts_and_in_vocabularies(site: Site) -> None:
    site.act("package_create", name="tagged", tags=[{"name": "river level"}, {"name": "river bed"}])
    site.act("vocabulary_create", name="closed", tags=[{"name": "river mouth"}])
    found = site.act("tag_search", query=["RIVER", "bed"])
    assert (found["count"], [tag["name"] for tag in found["results"]]) == (1, ["river bed"])
    assert [tag["name"] for tag in site.act("tag_search", query="river", vocabulary_id="closed")["results"]] == [
        "river mouth"
    ]
    assert site.act("tag_search", query="river", vocabulary_id="nope")["count"] == 0
    assert site.act("tag_autocomplete", q="mouth", vocabulary_id="closed") == ["river mouth"]
    assert site.act("tag_autocomplete", q="river", limit=1, offset=1) == ["river level"]
    assert "query" in site.error("tag_search", query=["a"] * (MAX_WORDS + 1))


def test_what_there_is_none_of_is_told_as_such(site: Site) -> None:
    package = made(site, "alone")
    resource = package["resources"][0]["id"]
    assert site.act("package_relationships_list", id="alone") == []
    for name, key in (("dataset", "alone"), ("organization", "default")):
        assert site.act(f"{name}_follower_count", id=key) == 0
    assert site.act("am_following_dataset", id="alone") is False
    assert site.error("dataset_follower_count", id="nope") == {"id": ["Not found: Dataset"]}
    assert site.act("package_create_default_resource_views", package={"id": package["id"]}) == []
    assert site.act("resource_create_default_resource_views", resource={"id": resource}) == []
    assert site.error("resource_view_create", resource_id=resource, view_type="text_view") == {
        "view_type": "No plugin found for view_type text_view"
    }
    site.act("resource_view_show", 404, id="nope")
    assert site.error("package_collaborator_list", id="alone") == {"message": "Dataset collaborators not enabled"}
    assert [role["value"] for role in site.act("member_roles_list")] == ["admin", "editor", "member"]
    assert [role["value"] for role in site.act("member_roles_list", group_type="group")] == ["admin", "member"]
