"""The licences that CKAN knows by default: what ``license_id`` stands for."""

from __future__ import annotations

from typing import Any, Final, NamedTuple


class License(NamedTuple):
    """``is_open``: by the Open Definition (https://opendefinition.org)."""

    id: str
    title: str
    url: str
    is_open: bool
    family: str = ""


LICENSES: Final = {
    item.id: item
    for item in (
        License("notspecified", "License not specified", "", False),
        License("odc-pddl", "Open Data Commons Public Domain Dedication and License (PDDL)",
                "http://www.opendefinition.org/licenses/odc-pddl", True),
        License("odc-odbl", "Open Data Commons Open Database License (ODbL)",
                "http://www.opendefinition.org/licenses/odc-odbl", True),
        License("odc-by", "Open Data Commons Attribution License",
                "http://www.opendefinition.org/licenses/odc-by", True),
        License("cc-zero", "Creative Commons CCZero", "http://www.opendefinition.org/licenses/cc-zero", True),
        License("cc-by", "Creative Commons Attribution", "http://www.opendefinition.org/licenses/cc-by", True),
        License("cc-by-sa", "Creative Commons Attribution Share-Alike",
                "http://www.opendefinition.org/licenses/cc-by-sa", True),
        License("gfdl", "GNU Free Documentation License", "http://www.opendefinition.org/licenses/gfdl", True),
        License("other-open", "Other (Open)", "", True),
        License("other-pd", "Other (Public Domain)", "", True),
        License("other-at", "Other (Attribution)", "", True),
        License("uk-ogl", "UK Open Government Licence (OGL)",
                "http://reference.data.gov.uk/id/open-government-licence", True),
        License("cc-nc", "Creative Commons Non-Commercial (Any)",
                "http://creativecommons.org/licenses/by-nc/2.0/", False),
        License("other-nc", "Other (Non-Commercial)", "", False),
        License("other-closed", "Other (Not Open)", "", False),
    )
}  # fmt: skip


def document(item: License) -> dict[str, Any]:
    """As ``license_list`` shows it."""
    return {
        "id": item.id, "title": item.title, "url": item.url, "family": item.family, "maintainer": "",
        "status": "active", "domain_content": False, "domain_data": False, "domain_software": False,
        "is_generic": item.id.startswith("other-"), "is_okd_compliant": item.is_open, "is_osi_compliant": False,
        "od_conformance": "approved" if item.is_open else "not reviewed", "osd_conformance": "not reviewed",
    }  # fmt: skip
