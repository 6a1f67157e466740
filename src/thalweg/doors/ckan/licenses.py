"""The licences that CKAN knows by default: what ``license_id`` stands for."""

from __future__ import annotations

from typing import Any, Final, NamedTuple


class License(NamedTuple):
    """``is_open``: by the Open Definition (https://opendefinition.org); ``domains``: what it is made for, data, content
    or both."""

    id: str
    title: str
    url: str
    is_open: bool
    domains: tuple[str, ...] = ()


LICENSES: Final = {
    item.id: item
    for item in (
        License("notspecified", "License not specified", "", False),
        License("odc-pddl", "Open Data Commons Public Domain Dedication and License (PDDL)",
                "http://www.opendefinition.org/licenses/odc-pddl", True, ("data",)),
        License("odc-odbl", "Open Data Commons Open Database License (ODbL)",
                "http://www.opendefinition.org/licenses/odc-odbl", True, ("data",)),
        License("odc-by", "Open Data Commons Attribution License",
                "http://www.opendefinition.org/licenses/odc-by", True, ("data",)),
        License("cc-zero", "Creative Commons CCZero",
                "http://www.opendefinition.org/licenses/cc-zero", True, ("data", "content")),
        License("cc-by", "Creative Commons Attribution", "http://www.opendefinition.org/licenses/cc-by", True),
        License("cc-by-sa", "Creative Commons Attribution Share-Alike",
                "http://www.opendefinition.org/licenses/cc-by-sa", True, ("content",)),
        License("gfdl", "GNU Free Documentation License",
                "http://www.opendefinition.org/licenses/gfdl", True, ("content",)),
        License("other-open", "Other (Open)", "", True, ("content",)),
        License("other-pd", "Other (Public Domain)", "", True, ("content",)),
        License("other-at", "Other (Attribution)", "", True, ("content",)),
        License("uk-ogl", "UK Open Government Licence (OGL)",
                "https://www.nationalarchives.gov.uk/doc/open-government-licence/version/3/", True, ("content",)),
        License("cc-nc", "Creative Commons Non-Commercial (Any)",
                "http://creativecommons.org/licenses/by-nc/2.0/", False),
        License("other-nc", "Other (Non-Commercial)", "", False),
        License("other-closed", "Other (Not Open)", "", False),
    )
}  # fmt: skip


def document(item: License) -> dict[str, Any]:
    """As ``license_list`` shows it: what is true or false is told as a text."""
    is_generic = item.id.startswith("other-") or item.id == "notspecified"
    return {
        "id": item.id, "title": item.title, "url": item.url, "family": "", "maintainer": "", "status": "active",
        **{f"domain_{name}": str(name in item.domains) for name in ("content", "data", "software")},
        "is_generic": str(is_generic),
        "od_conformance": "approved" if item.is_open else "not reviewed", "osd_conformance": "not reviewed",
    }  # fmt: skip
