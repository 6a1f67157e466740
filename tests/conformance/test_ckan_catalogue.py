"""Packages, resources, organizations, groups, tags, users and tokens, as CKAN's clients change and read them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.ckan_support import Site
from tests.store.support import register

from thalweg.domain.access import Role, User


def token_of(site: Site, name: str, role: Role = Role.NOTHING) -> str:
    site.store.put_user(User(name, role, "$argon2id$none", 1)).result(30)
    return site.application.services.access.create_token(name, "")


# ------------------------------------------------------------------ packages


def test_everything_said_of_a_package_comes_back(site: Site) -> None:
    said = {
        "name": "whole", "title": "Whole", "notes": "Über alles", "url": "http://example.org", "version": "1.2",
        "author": "A", "author_email": "a@example.org", "maintainer": "M", "maintainer_email": "m@example.org",
        "license_id": "cc-by", "private": True, "type": "dataset",
    }  # fmt: skip
    extras = [{"key": "spatial", "value": '{"type":"Point","coordinates":[1,2]}'}, {"key": "empty", "value": ""}]
    made = site.act(
        "package_create", **said, extras=extras, tags=[{"name": "b c"}, {"name": "aa"}],
        resources=[{"url": "http://example.org/a.CSV", "name": "a", "description": "d", "size": "12", "own": {"k": [1]}}],
    )  # fmt: skip
    assert {name: made[name] for name in said} == said
    assert made["extras"] == extras
    assert [tag["name"] for tag in made["tags"]] == ["aa", "b c"]
    assert (made["license_title"], made["isopen"]) == ("Creative Commons Attribution", True)
    assert (made["num_tags"], made["num_resources"], made["creator_user_id"]) == (2, 1, "root")
    resource = made["resources"][0]
    assert (resource["format"], resource["size"], resource["own"]) == ("CSV", 12, {"k": [1]})
    assert site.act("package_show", id=made["id"]) == made
    assert site.act("package_show", name_or_id="whole", include_tracking=True) == made
    # What a client read it can send back.
    again = site.act("package_update", **made)
    changing = ("metadata_modified", "last_modified", "resources")
    assert {k: v for k, v in again.items() if k not in changing} == {k: v for k, v in made.items() if k not in changing}
    assert again["resources"][0]["id"] == resource["id"]
    assert again["resources"][0]["own"] == {"k": [1]}


def test_update_replaces_and_patch_keeps(site: Site) -> None:
    made = site.act(
        "package_create", name="changing", title="T", notes="N", extras=[{"key": "a", "value": "1"}],
        resources=[{"url": "http://example.org/1"}, {"url": "http://example.org/2"}],
    )  # fmt: skip
    first, second = made["resources"]
    patched = site.act("package_patch", id="changing", notes="M", maintainer="X")
    assert (patched["title"], patched["notes"], patched["maintainer"]) == ("T", "M", "X")
    assert [r["id"] for r in patched["resources"]] == [first["id"], second["id"]]
    updated = site.act(
        "package_update",
        id=made["id"],
        name="changed",
        resources=[{"url": "http://example.org/0"}, {**first, "name": "F"}],
    )
    assert (updated["title"], updated["notes"], updated["extras"]) == ("changed", None, [])
    assert [r["url"] for r in updated["resources"]] == ["http://example.org/0", "http://example.org/1"]
    assert [r["position"] for r in updated["resources"]] == [0, 1]
    assert (updated["resources"][1]["id"], updated["resources"][1]["name"]) == (first["id"], "F")
    assert updated["metadata_created"] == made["metadata_created"]
    assert updated["metadata_modified"] > made["metadata_modified"]
    site.act("resource_show", 404, id=second["id"])
    order = [updated["resources"][1]["id"], updated["resources"][0]["id"]]
    assert site.act("package_resource_reorder", id="changed", order=order[:1])["order"] == order
    assert [r["id"] for r in site.act("package_show", id="changed")["resources"]] == order
    site.act("package_show", 404, id="changing")


def test_what_a_resource_says_is_derived_and_kept_as_ckan_does(site: Site) -> None:
    site.act("package_create", name="derived")
    made = site.act("resource_create", package_id="derived", url="example.org/a.csv", last_modified="2020-01-02",
                    hash=None)  # fmt: skip
    assert made["hash"] == ""
    assert (made["url"], made["format"], made["mimetype"]) == ("http://example.org/a.csv", "CSV", "text/csv")
    assert made["last_modified"] == "2020-01-02T00:00:00"
    updated = site.act("resource_update", id=made["id"], url="http://example.org/api")
    assert (updated["format"], updated["mimetype"], updated["last_modified"]) == ("CSV", None, None)
    for given, shown in (("text/csv", "CSV"), ("Excel", "XLS"), ("own", "own"), (None, "")):
        assert site.act("resource_patch", id=made["id"], format=given)["format"] == shown
    faults = site.error("resource_patch", id=made["id"], size="a", last_modified="b", cache_last_updated="c")
    bad_time = ["Date format incorrect"]
    # In UTC this is before the first year.
    assert site.error("resource_patch", id=made["id"], last_modified="0001-01-01T00:00:00+14:00") == {
        "last_modified": bad_time
    }
    assert faults == {"size": ["Invalid integer"], "last_modified": bad_time, "cache_last_updated": bad_time}


def test_a_table_outlives_the_update_of_its_package(site: Site) -> None:
    site.act("package_create", name="with-table")
    table = site.act("datastore_create", resource={"package_id": "with-table", "name": "t"}, records=[{"a": 1}])
    package = site.act("package_show", id="with-table")
    site.act("package_update", **{**package, "title": "New"})
    assert site.search(table["resource_id"])["total"] == 1
    shown = site.act("resource_patch", id=table["resource_id"], description="d")
    assert (shown["datastore_active"], shown["url_type"], shown["name"]) == (True, "datastore", "t")
    assert shown["url"].endswith(f"/datastore/dump/{table['resource_id']}")
    # As of CKAN 2.12 a list of resources that is left out changes none of them, nor does a name.
    kept = site.act("package_update", id="with-table", notes="N")
    assert (kept["name"], kept["title"], kept["notes"]) == ("with-table", "with-table", "N")
    assert [resource["id"] for resource in kept["resources"]] == [table["resource_id"]]
    assert site.act("package_update", id="with-table", resources=[])["num_resources"] == 0
    site.act("datastore_search", 404, resource_id=table["resource_id"])


@pytest.mark.parametrize(
    ("given", "faults"),
    [
        ({}, {"name": ["Missing value"]}),
        ({"name": "a b"}, {"name": ["Must be purely lowercase alphanumeric (ascii) characters and these symbols: -_"]}),
        ({"name": "a"}, {"name": ["Must be at least 2 characters long"]}),
        ({"name": "a" * 101}, {"name": ["Name must be a maximum of 100 characters long"]}),
        ({"name": "search"}, {"name": ["That name cannot be used"]}),
        ({"name": "ab", "author_email": "a.b"}, {"author_email": ["Email a.b is not a valid format"]}),
        ({"name": "ab", "version": "v" * 101}, {"version": ["Version must be a maximum of 100 characters long"]}),
        ({"name": "ab", "extras": [{"key": "title", "value": "1"}]},
         {"extras": [{"key": ["There is a schema field with the same name"]}]}),
        ({"name": "ab", "tag_string": "ok, b"}, {"tag_string": ['Tag "b" length is less than minimum 2']}),
        ({"name": "ab", "title": 5}, {"title": ["Must be a text"]}),
        ({"name": "ab", "tags": [{"name": "a"}]}, {"tags": ['Tag "a" length is less than minimum 2']}),
        ({"name": "ab", "tags": [{"name": "a+b"}]}, {"tags": [
            'Tag "a+b" can only contain alphanumeric characters, spaces (" "), hyphens ("-"), underscores ("_") or dots (".")']}),
        ({"name": "ab", "tags": "text"}, {"tags": ["Not a list of at most 200 dicts, each with a name"]}),
        ({"name": "ab", "extras": [{"key": "a", "value": "1"}, {"key": "a", "value": "2"}]},
         {"extras_validation": ['Duplicate key "a"']}),
        ({"name": "ab", "extras": [{"key": "a"}]}, {"extras": [{"value": ["Missing value"]}]}),
        ({"name": "ab", "groups": [{"name": "nope"}]}, {"groups": ["Group 'nope' was not found."]}),
        ({"name": "ab", "state": "odd"}, {"state": ["Value must be one of active, deleted, draft"]}),
        ({"name": "ab", "resources": [{"url": "x"}, {"url": 5}]}, {"resources": [{}, {"url": ["Must be a text"]}]}),
        ({"name": "ab", "owner_org": "nope"}, {"owner_org": ["Organization does not exist"]}),
        ({"name": "ab", "tags": [{"name": "ab", "vocabulary_id": "nope"}]}, {"tags": [{"vocabulary_id": ["Tag vocabulary was not found."]}]}),
        ({"name": "ab", "id": "a/b"}, {"id": ["Invalid id provided"]}),
        ({"name": "taken"}, {"name": ["That URL is already in use."]}),
    ],
)  # fmt: skip
def test_faults_of_packages_are_told_by_field(site: Site, given: dict[str, Any], faults: dict[str, Any]) -> None:
    if given.get("name") == "taken":
        site.act("package_create", name="taken")
    assert site.error("package_create", **given) == faults
    assert "ab" not in site.act("package_list")


def test_bounds_of_descriptions(site: Site) -> None:
    many = [{"key": f"k{i}", "value": "v"} for i in range(501)]
    assert "extras" in site.error("package_create", name="large", extras=many)
    assert "tags" in site.error("package_create", name="large", tags=[{"name": f"tag{i}"} for i in range(201)])
    assert "resources" in site.error("package_create", name="large", resources=[{}] * 1_001)
    assert "groups" in site.error("package_create", name="large", groups=[{"name": "a"}] * 101)
    assert "notes" in site.error("package_create", name="large", notes="n" * 100_001)
    # One character more than MAX_EMAIL.
    assert "author_email" in site.error("package_create", name="large", author_email="a" * 309 + "@example.org")
    wide = [{"key": f"k{i}", "value": "v" * 1_000} for i in range(300)]
    assert "extras" in site.error("package_create", name="large", extras=wide)
    assert site.send("POST", "/api/action/package_create", content=b'{"name": "\\ud800"}',
                     headers={"Content-Type": "application/json", "Authorization": site.token}).status_code == 400  # fmt: skip


def test_deleted_packages_come_back_by_their_state(site: Site) -> None:
    site.act("package_create", name="lazarus")
    site.act("package_delete", id="lazarus")
    site.act("package_show", 403, token="", id="lazarus")
    assert site.act("package_show", id="lazarus")["state"] == "deleted"
    site.act("package_patch", id="lazarus", state="active")
    assert site.act("package_show", token="", id="lazarus")["state"] == "active"
    assert site.act("package_patch", id="lazarus", state="draft")["state"] == "draft"


def test_resources_are_replaced_and_patched(site: Site) -> None:
    site.act("package_create", name="links")
    made = site.act(
        "resource_create", package_id="links", url="http://example.org/x.json", name="n", description="d", own="o"
    )
    assert (made["format"], made["position"], made["own"]) == ("JSON", 0, "o")
    patched = site.act("resource_patch", id=made["id"], name="m")
    assert (patched["name"], patched["description"], patched["own"]) == ("m", "d", "o")
    updated = site.act("resource_update", id=made["id"], url="http://example.org/y", format="csv")
    assert (updated["name"], updated["description"], updated["format"]) == (None, None, "CSV")
    assert "own" not in updated
    assert site.act("resource_view_list", id=made["id"]) == []
    assert site.error("resource_patch", id=made["id"], url=7) == {"url": ["Must be a text"]}
    assert site.act("resource_update", 404, id="nope")["message"] == 'Not found: Resource "nope" was not found.'
    before = site.act("package_show", id="links")["metadata_modified"]
    site.act("resource_delete", id=made["id"])
    assert site.act("package_show", id="links")["metadata_modified"] > before


# ------------------------------------------------------------------ organizations


def test_organizations_are_workspaces(site: Site) -> None:
    made = site.act("organization_create", name="hydro", title="Hydrology", description="Waters")
    assert (made["title"], made["description"], made["is_organization"]) == ("Hydrology", "Waters", True)
    assert "hydro" in site.store.workspaces()
    assert "name" in site.error("organization_create", name="not a name")
    assert "name" in site.error("organization_create", name="sos")
    assert site.act("organization_patch", id="hydro", title="H")["description"] == "Waters"
    assert site.act("organization_update", id=made["id"], title="Hy")["description"] == "Waters"
    site.act("package_create", name="of-hydro", owner_org=made["id"])
    shown = site.act("organization_show", id="hydro", include_datasets=True)
    assert (shown["package_count"], [p["name"] for p in shown["packages"]]) == (1, ["of-hydro"])
    assert "id" in site.error("organization_delete", id="hydro")
    assert site.act("organization_list", organizations=["hydro"], all_fields=True)[0]["package_count"] == 1


def test_an_organization_of_a_dump_keeps_its_users(site: Site) -> None:
    """As a loader of another server's dump says it, with ids, users and what else there is."""
    token_of(site, "oda")
    token_of(site, "odo")
    said = {
        "id": "c0aad5e3-fab6-4012-bf92-18bce7e9957d", "name": "dumped", "title": "Dumped",
        "image_url": "http://example.org/logo.png", "extras": [{"key": "code", "value": "7"}],
    }  # fmt: skip
    users = [
        {"id": "58aa5a42-efbd-444f-b3b8-0ca2cd45f83c", "name": "oda", "capacity": "editor", "state": "active"},
        {"id": "f200ee18-8b75-40f3-ae5e-85d9b7059006", "name": "who-has-no-account-here", "capacity": "admin"},
    ]
    made = site.act("organization_create", **said, users=users)
    assert {name: made[name] for name in said} == said
    assert made["image_display_url"] == "http://example.org/logo.png"
    assert site.act("member_list", id="dumped", object_type="user") == [["oda", "user", "Editor"]]
    package = site.act("package_create", name="of-dumped", owner_org=said["id"])
    assert package["organization"]["image_url"] == "http://example.org/logo.png"
    patched = site.act("organization_patch", id="dumped", title="D")
    assert (patched["image_url"], patched["extras"]) == (said["image_url"], said["extras"])
    assert [user["name"] for user in patched["users"]] == ["oda"]
    updated = site.act("organization_update", **said, users=[{"name": "odo", "capacity": "member"}])
    assert [(user["name"], user["capacity"]) for user in updated["users"]] == [("odo", "member")]
    assert site.act("organization_update", id="dumped")["extras"] == []
    assert "id" in site.error("organization_create", id=said["id"], name="dumped-again")
    assert "name" in site.error("organization_create", name="dumped")
    assert "id" in site.error("organization_create", id="../../x", name="dumped-again")
    assert "users" in site.error("organization_patch", id="dumped", users=[{"name": "odo"}] * 1_001)
    many = [{"key": f"k{n}", "value": ""} for n in range(101)]
    assert "extras" in site.error("organization_patch", id="dumped", extras=many)
    assert "users" in site.error("organization_patch", id="dumped", users=[{"name": "odo", "capacity": "king"}])
    # Groups and closed lists keep their ids, too, and refuse those in use.
    for action in ("group_create", "vocabulary_create"):
        assert site.act(action, id="3d7baa89-e2e2-45e2-937d-46973532e8e5", name="taken")["name"] == "taken"
        assert "id" in site.error(action, id="3d7baa89-e2e2-45e2-937d-46973532e8e5", name="taken-again")
        site.act(action.replace("create", "delete"), id="taken")


def test_kinds_of_resources_of_other_servers_are_kept(site: Site) -> None:
    resources = [
        {"name": "designed", "url_type": "tabledesigner"},
        {"name": "far", "url_type": "s3", "url": "http://example.org/far.csv"},
    ]
    made = site.act("package_create", name="kinds", resources=resources)["resources"]
    assert [resource["url_type"] for resource in made] == ["datastore", "s3"]
    site.act("datastore_create", resource_id=made[0]["id"], fields=[{"id": "a", "type": "int"}])
    patched = site.act("resource_patch", id=made[1]["id"], description="d")
    assert (patched["url_type"], patched["url"]) == ("s3", "http://example.org/far.csv")
    assert "url_type" in site.error("resource_patch", id=made[1]["id"], url_type="k" * 101)


def test_users_come_with_the_hashes_of_their_passwords(site: Site) -> None:
    stored = "$pbkdf2-sha512$25000$" + "a" * 22 + "$" + "b" * 86
    site.act("user_create", name="moved", password_hash=stored, email="moved@example.org")
    assert site.store.user("moved").password_hash == stored
    other = stored.replace("25000", "30000")
    site.act("user_update", id="moved", password_hash=other)
    assert site.store.user("moved").password_hash == other
    token = site.application.services.access.create_token("moved", "")
    site.act("user_update", 403, token=token, id="moved", password_hash=stored)
    assert "password_hash" in site.error("user_create", name="moved-too", password_hash="cleartext")
    assert "password_hash" not in site.act("user_show", id="moved", include_password_hash=True)
    # A password counts more, here as in updates.
    site.act("user_create", name="moved-three", password="long enough", password_hash=stored)
    assert site.store.user("moved-three").password_hash.startswith("$argon2id$")


def test_everything_said_of_an_organization_comes_back(site: Site) -> None:
    uuid = "3f6c1b1e-8a53-4f5f-9f4c-6c5d0b6a1e11"
    said = {"id": uuid, "name": "moved", "title": "Moved", "image_url": "https://example.org/a.png"}
    extras = [{"key": "vat", "value": "DE1"}]
    made = site.act("organization_create", **said, extras=extras)
    assert {name: made[name] for name in said} == said
    assert (made["extras"], made["image_display_url"], made["num_followers"]) == (extras, said["image_url"], 0)
    assert made["created"].startswith("20")
    # Of another site its packages name it by its id.
    assert site.act("package_create", name="of-moved", owner_org=uuid)["organization"]["image_url"] == said["image_url"]
    assert site.act("organization_patch", id="moved", title="M")["extras"] == extras
    updated = site.act("organization_update", id="moved", image_url="")
    assert (updated["title"], updated["extras"], updated["image_url"]) == ("M", [], "")
    assert site.error("organization_create", name="moved") == {"name": ["Group name already exists in database"]}
    assert site.error("organization_create", name="b", extras=[{"key": "a"}]) == {
        "extras": [{"value": ["Missing value"]}]
    }
    assert site.error("organization_create", name="b") == {"name": ["Must be at least 2 characters long"]}
    for image_url in ("u" * 2_001, "u\0"):
        assert "image_url" in site.error("organization_create", name="bb", image_url=image_url)
    for user in ({"name": 5}, {"name": "root", "capacity": ["admin"]}, {"name": "root", "capacity": {"a": 1}}):
        for kind in ("organization", "group"):
            assert "users" in site.error(f"{kind}_create", name="bb", users=[user])


def test_lists_are_ordered_and_tell_what_is_asked_for(site: Site) -> None:
    for name, title in (("la", "Two"), ("lb", "one")):
        site.act("organization_create", name=name, title=title)
        site.act("group_create", name=f"g{name}", title=title, extras=[{"key": "k", "value": "v"}])
    site.act("package_create", name="in-la", owner_org="la", groups=[{"name": "gla"}])
    for kind, names in (("organization", ["la", "lb"]), ("group", ["gla", "glb"])):
        chosen = {f"{kind}s": names}
        assert site.act(f"{kind}_list", **chosen) == names[::-1]  # by title
        assert site.act(f"{kind}_list", **chosen, sort="name asc") == names
        assert site.act(f"{kind}_list", **chosen, sort="package_count") == names[::-1]
        assert site.act(f"{kind}_list", **chosen, sort="name desc", limit=1, offset=1) == names[:1]
        assert site.error(f"{kind}_list", sort="color") == {"message": "Cannot sort by field `color`"}
        assert site.error(f"{kind}_list", sort="name up") == {"message": "Invalid sort direction `up`"}
        assert site.error(f"{kind}_list", limit="x", offset=-1) == {
            "limit": ["Invalid integer"], "offset": ["Must be a natural number"]
        }  # fmt: skip
        few = site.act(f"{kind}_list", **chosen, all_fields=True)[0]
        assert (few["package_count"], "extras" in few, "users" in few) == (0, False, False)
        more = site.act(f"{kind}_list", **chosen, all_fields=True, include_extras=True, include_dataset_count=False)[0]
        assert ("extras" in more, "package_count" in more) == (True, False)
        shown = site.act(f"{kind}_show", id=names[0])
        assert {"extras", "users", "groups", "tags", "package_count", "num_followers"} <= set(shown)
        assert "users" not in site.act(f"{kind}_show", id=names[0], include_users=False)
    assert site.act("group_list", type="other") == []


def test_a_group_is_made_with_packages_and_known_users(site: Site) -> None:
    site.act("package_create", name="first-in")
    token_of(site, "known")
    users = [{"name": "known", "capacity": "editor"}, {"name": "nobody", "capacity": "admin"}]
    made = site.act("group_create", name="full", packages=[{"name": "first-in"}], users=users)
    assert (made["package_count"], [user["name"] for user in made["users"]]) == (1, ["known"])
    updated = site.act("group_update", id="full", title="T")
    assert (updated["package_count"], len(updated["users"])) == (1, 1)
    assert site.error("group_create", name="empty", packages=[{"id": "first-in"}, {"id": "nope"}]) == {
        "packages": [{}, {"id": ["Dataset not found"]}]
    }
    assert "packages" in site.error("group_create", name="empty", packages=[{"id": "first-in"}] * 1_001)
    assert "empty" not in site.act("group_list")
    missing = site.error("member_create")
    assert missing == {name: ["Missing value"] for name in ("id", "object", "object_type", "capacity")}
    assert site.error("group_member_create", id="full", username="nobody", role="editor") == {
        "username": ["User not found"]
    }
    site.act("group_member_delete", 404, id="full", username="nobody")


def test_administrators_are_told_of_the_organizations_of_others(site: Site) -> None:
    site.act("organization_create", name="olgas")
    site.act("organization_create", name="open-to-all")
    token = token_of(site, "olga")
    site.act("organization_member_create", id="olgas", username="olga", role="member")
    site.act("package_create", name="public-elsewhere", owner_org="open-to-all")
    for permission, names in (("read", ["olgas"]), ("create_dataset", []), ("admin", [])):
        asked = {"id": "olga", "permission": permission}
        assert [o["name"] for o in site.act("organization_list_for_user", **asked)] == names
        assert [o["name"] for o in site.act("organization_list_for_user", token=token, **asked)] == names
    site.act("organization_list_for_user", 404, token=token, id="root")


def test_members_of_an_organization_may_what_their_capacity_says(site: Site) -> None:
    site.act("organization_create", name="members")
    token = token_of(site, "mia")
    site.act("package_create", 403, token=token, name="mias", owner_org="members")
    assert site.act("organization_list_for_user", token=token) == []
    told = site.act("organization_member_create", id="members", username="mia", role="editor")
    assert (told["table_id"], told["capacity"]) == ("mia", "editor")
    site.act("package_create", token=token, name="mias", owner_org="members", private=True)
    assert [o["name"] for o in site.act("organization_list_for_user", token=token)] == ["members"]
    assert site.act("member_list", id="members", object_type="user") == [["mia", "user", "Editor"]]
    assert site.act("member_list", token=token, id="members", object_type="user") == []
    site.act("organization_member_delete", 403, token=token, id="members", username="mia")
    site.act("organization_member_delete", id="members", username="mia")
    site.act("organization_member_delete", id="members", username="mia")  # Who is none stays none.
    site.act("organization_member_delete", 404, id="members", username="nobody")
    site.act("package_show", 403, token=token, id="mias")
    site.act("member_create", id="members", object="mia", object_type="user", capacity="member")
    assert site.act("package_show", token=token, id="mias")["private"] is True
    site.act("member_delete", id="members", object="mia", object_type="user")
    site.act("package_show", 403, token=token, id="mias")
    assert site.error("organization_member_create", id="members", username="mia", role="king") == {
        "role": ["role does not exist."]
    }


def test_a_package_that_moves_leaves_the_roles_held_for_it(site: Site) -> None:
    from thalweg.domain.access import Scope

    site.act("organization_create", name="from-here")
    site.act("organization_create", name="to-there")
    site.act("package_create", name="mover", owner_org="from-here", private=True)
    package = site.store.package("mover")
    token = token_of(site, "max")
    site.application.services.access.grant(
        "max", Scope(package.workspace_id, "package", package.id), Role.NETWORK_MANAGER
    )
    site.act("package_patch", token=token, id="mover", title="Mine")
    site.act("package_owner_org_update", 403, token=token, id="mover", organization_id="to-there")
    site.act("package_patch", id="mover", owner_org="to-there")
    assert site.act("package_show", id="mover")["organization"]["name"] == "to-there"
    site.act("package_show", 403, token=token, id="mover")


# ------------------------------------------------------------------ groups and tags


def test_groups_hold_packages_of_any_organization(site: Site) -> None:
    made = site.act(
        "group_create", name="water", title="Water", description="All of it", extras=[{"key": "a", "value": "b"}]
    )
    assert made["users"] == [{"id": "root", "name": "root", "capacity": "admin", "state": "active"}]
    site.act("package_create", name="wet", groups=[{"id": made["id"]}])
    site.act("package_create", name="hidden-wet", private=True, groups=[{"name": "water"}])
    assert site.act("package_show", id="wet")["groups"][0]["title"] == "Water"
    listed = site.act("group_list", all_fields="true", token="")
    assert [(g["name"], g["package_count"]) for g in listed if g["name"] == "water"] == [("water", 1)]
    assert site.act("group_list", groups="water") == ["water"]
    assert [p["name"] for p in site.act("group_package_show", id="water", token="")] == ["wet"]
    assert [p["name"] for p in site.act("group_show", id="water", include_datasets=True)["packages"]] == [
        "hidden-wet",
        "wet",
    ]
    assert site.act("group_patch", id="water", title="W")["extras"] == [{"key": "a", "value": "b"}]
    site.act("group_update", id="water", title="V", description="d")
    site.act("package_patch", id="wet", title="Still in it")
    assert site.act("group_show", id="water")["package_count"] == 2
    site.act("member_delete", id="water", object="wet", object_type="package")
    site.act("member_create", id="water", object="wet", object_type="package", capacity="public")
    assert len(site.act("member_list", id="water", object_type="package")) == 2
    site.act("package_patch", id="wet", groups=[])
    assert site.act("package_show", id="wet")["groups"] == []
    site.act("group_delete", id="water")
    site.act("group_show", 404, id="water")
    assert site.act("package_show", id="hidden-wet")["groups"] == []


def test_editors_of_a_group_alone_put_packages_into_it(site: Site) -> None:
    site.act("group_create", name="club")
    site.act("organization_create", name="guests")
    token = token_of(site, "gil")
    site.act("organization_member_create", id="guests", username="gil", role="editor")
    site.act("package_create", 403, token=token, name="intruder", owner_org="guests", groups=[{"name": "club"}])
    assert "intruder" not in site.act("package_list")
    site.act("group_member_create", id="club", username="gil", role="editor")
    assert [g["name"] for g in site.act("group_list_authz", token=token)] == ["club"]
    site.act("package_create", token=token, name="invited", owner_org="guests", groups=[{"name": "club"}])
    site.act("group_member_delete", id="club", username="gil")
    # What is in it stays in it, whoever changes it.
    package = site.act("package_show", token=token, id="invited")
    assert site.act("package_update", token=token, **package)["groups"][0]["name"] == "club"


def test_tags_and_vocabularies(site: Site) -> None:
    site.act("package_create", name="tagged", tag_string="snow, deep snow")
    site.act("package_create", name="tagged-too", private=True, tags=[{"name": "secret snow"}])
    assert site.act("tag_list", token="", query="snow") == ["deep snow", "snow"]
    assert site.act("tag_search", query="SNOW")["count"] == 3
    assert site.act("tag_autocomplete", q="deep") == ["deep snow"]
    assert [p["name"] for p in site.act("tag_show", id="snow", include_datasets=True)["packages"]] == ["tagged"]
    site.act("tag_show", 404, id="nothing")
    made = site.act("vocabulary_create", name="themes", tags=[{"name": "alps"}, {"name": "sea"}])
    bound = {"name": "alps", "vocabulary_id": made["id"]}
    assert site.act("package_patch", id="tagged", tags=[bound])["tags"][0]["vocabulary_id"] == made["id"]
    assert site.error("package_patch", id="tagged", tags=[{"name": "moon", "vocabulary_id": made["id"]}]) == {
        "tags": ["Tag moon does not belong to vocabulary themes"]
    }
    assert site.act("package_search", fq="vocab_themes:alps")["count"] == 1
    counted = site.act("package_search", rows=0, **{"facet.field": ["vocab_themes"]})
    assert counted["facets"] == {"vocab_themes": {"alps": 1}}
    site.act("tag_create", name="lake", vocabulary_id="themes")
    assert site.act("tag_list", vocabulary_id="themes") == ["alps", "lake", "sea"]
    site.act("tag_delete", id="lake", vocabulary_id="themes")
    assert [t["name"] for t in site.act("vocabulary_show", id="themes")["tags"]] == ["alps", "sea"]
    assert "tags" in site.error("vocabulary_create", name="wide", tags=[{"name": f"tag {i}"} for i in range(5_001)])
    site.act("vocabulary_delete", id="themes")
    assert [v["name"] for v in site.act("vocabulary_list")] == []
    assert "cc-by" in [item["id"] for item in site.act("license_list")]


# ------------------------------------------------------------------ users


def test_users_are_accounts(site: Site) -> None:
    made = site.act("user_create", name="uma", email="uma@example.org", password="correct horse battery")
    assert (made["name"], made["sysadmin"], made["state"]) == ("uma", False, "active")
    assert site.act("user_show", id="uma") == made
    assert "uma" in site.act("user_list", all_fields=False)
    created = site.act("api_token_create", user="uma", name="laptop", expires_in=2)
    text = created["token"]
    assert created["id"] in [token["id"] for token in site.act("api_token_list", user_id="uma")]
    listed = site.act("api_token_list", token=text, user_id="uma")
    assert [item["name"] for item in listed] == ["laptop"]
    assert listed[0]["expires_at"] is not None
    # She sees herself alone, and a token makes no other.
    assert site.act("user_list", token=text, all_fields=False) == ["uma"]
    site.act("user_show", 404, token=text, id="root")
    site.act("api_token_create", 409, token=text, user="uma", name="more")
    site.act("api_token_list", 404, token=text, user_id="root")
    site.act("user_update", 409, token=text, id="uma", password="another horse battery")
    site.act("user_update", 403, token=text, id="uma", sysadmin=True)
    site.act("user_create", 403, token=text, name="eve", password="correct horse battery")
    site.act("api_token_revoke", token=text, jti=listed[0]["id"])
    site.act("user_show", 403, token=text)
    assert site.act("user_update", id="uma", sysadmin=True)["sysadmin"] is True
    site.act("user_delete", id="uma")
    site.act("user_show", 404, id="uma")
    site.act("user_list", 403, token="")


def test_callers_without_name_learn_the_reason(site: Site) -> None:
    for action in ("group_create", "organization_create", "vocabulary_create", "user_create", "resource_create"):
        error = site.act(action, 403 if action != "resource_create" else 409, token="", name="x1")
        assert error["__type"] in ("Authorization Error", "Validation Error")


def test_no_id_or_alias_hides_what_is_found_by_the_same_word(site: Site) -> None:
    """All are found by id first: who may make anything at all must not make what is shown in the place of another's."""
    package = site.act("package_create", name="another-package", notes="true")
    site.act("package_create", 409, name="false", id="another-package")
    site.act("package_create", name="own-name-as-id", id="own-name-as-id")
    site.table([{"id": "n", "type": "int"}], aliases="another-table", records=[{"n": 1}])
    site.act("resource_create", 409, package_id=package["id"], url="x", id="another-table")
    assert site.search("another-table")["total"] == 1
    for kind in ("group", "organization", "vocabulary"):
        site.act(f"{kind}_create", name="another-name")
        site.act(f"{kind}_create", 409, name="false-name", id="another-name")
    station = register(site.store)
    (procedure,) = site.act("package_show", id="procedures-of-default")["resources"]
    hiding = {"resource": {"package_id": package["id"], "name": "h"}, "records": [{"n": 1}]}
    assert "alias" in site.error("datastore_create", **hiding, aliases=[procedure["id"]])
    assert site.act("resource_show", id=procedure["id"])["name"] == station.procedure.identifier


def test_the_store_is_clean_after_all(site: Site) -> None:
    assert list(site.store.check()) == []


def test_a_list_of_organizations_reads_who_belongs_to_them_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["first-of-three", "second-of-three", "third-of-three"]
    for name in names:
        site.act("organization_create", name=name)
    site.act("user_create", name="una", password="correct horse battery")
    site.act("organization_member_create", id=names[1], username="una", role="editor")
    read: list[None] = []
    as_it_was = site.store.grants
    monkeypatch.setattr(site.store, "grants", lambda *asked: read.append(None) or as_it_was(*asked))
    listed = site.act("organization_list", organizations=names, all_fields=True, include_users=True)
    of_all = {item["name"]: [(user["name"], user["capacity"]) for user in item["users"]] for item in listed}
    assert of_all == dict(zip(names, ([], [("una", "editor")], []), strict=True))
    assert len(read) <= 2
