"""Functions and triggers, which are refused as a parameter at fault, not as an unknown action."""

from __future__ import annotations

from tests.conformance.ckan_support import Site


def test_functions_are_refused_with_a_reason(site: Site) -> None:
    given = {"name": "upcase", "rettype": "trigger", "definition": "BEGIN NEW.a := upper(NEW.a); RETURN NEW; END;"}
    for action in ("datastore_function_create", "datastore_function_delete"):
        error = site.error(action, **given)
        assert "no functions" in str(error["name"])
        assert site.error(action)["name"] == ["Missing value"]
        assert site.act(action, 403, token="", **given)["__type"] == "Authorization Error"
        answer = site.get(f"/api/3/action/{action}", name="upcase")
        assert answer.status_code == 400


def test_running_triggers_is_refused_with_a_reason(site: Site) -> None:
    key = site.table([{"id": "a", "type": "text"}], records=[{"a": "x"}])
    assert "no triggers" in str(site.error("datastore_run_triggers", resource_id=key)["triggers"])
    assert site.error("datastore_run_triggers")["resource_id"] == ["Missing value"]
    assert site.act("datastore_run_triggers", 404, resource_id="nope")["__type"] == "Not Found Error"
    assert site.act("datastore_run_triggers", 403, token="", resource_id=key)["__type"] == "Authorization Error"
    assert site.rows(key) == [[1, "x"]]


def test_a_table_with_triggers_is_not_made(site: Site) -> None:
    site.act("package_create", name="with-triggers")
    given = {"package_id": "with-triggers"}
    error = site.error("datastore_create", resource=given, fields=[{"id": "a"}], triggers=[{"function": "upcase"}])
    assert error
    assert site.act("package_show", id="with-triggers")["resources"] == []


def test_an_organization_is_neither_deleted_nor_purged(site: Site) -> None:
    for action in ("organization_delete", "organization_purge"):
        assert "workspace" in str(site.error(action, id="default")["id"])
    assert site.act("organization_list") == ["default"]
