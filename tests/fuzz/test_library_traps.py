"""Calls that have crashed processes, filled memory or opened files on small input are made in few places, each guarded.

Of every call here it is known what it does with hostile input: GEOS ends the process on WKT and WKB nested some thousands
deep, pyoxigraph on JSON-LD 4,000 deep, PROJ opens the files its texts name, ``re`` takes hours for a bad pattern, and a
second parser of XML would not have the bounds of the first. A module that makes such a call is named with the reason why
it may: here, or in the file of its door (``traps``).
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

from tests.fuzz import gaps
from tests.fuzz.support import declared, doors

SOURCE = Path(__file__).resolve().parents[2] / "src"

TRAPS: Final = {
    "XML": r"etree\.(fromstring|parse|iterparse|XML|HTML|XMLParser|XMLPullParser|fromstringlist|XSLT|RelaxNG|XMLSchema|XInclude)|"
    r"(ElementTree|minidom|sax|expat|xmlrpc)\b.*\.(parse|fromstring|parseString|iterparse)|objectify\..*|html5lib\..*|BeautifulSoup",
    "JSON": r"(json|orjson|ujson|simplejson)\.(loads|load|Fragment)",
    "geometry": r"(shapely\.|wkt\.|wkb\.|geos\.)?(from_wkt|from_wkb|from_geojson|from_ragged_array)|(wkt|wkb)\.(loads|load)|shapely\.geometry\.shape|shape",
    "CRS": r"(CRS|pyproj\.CRS)(\.(from_user_input|from_string|from_wkt|from_proj4|from_json|from_dict|from_cf|from_authority))?|Transformer\.from_pipeline|"
    r"Proj|pyproj\.Proj",
    "RDF": r"(pyoxigraph|rdflib|pyld|jsonld|pyshacl)\..*",
    "SQL": r"(sqlglot|sqlparse|duckdb)\..*",
    "expression": r"re\.(compile|match|fullmatch|search|sub|split|findall|finditer)",
    "template": r"(\w+\.)?from_string|Template|jinja2\.Template|(\w+\.)?render_template_string",
    "code": r"eval|exec|compile|__import__|importlib\.import_module|pickle\..*|marshal\.loads|shelve\..*|yaml\.(load|unsafe_load|full_load)|dill\..*",
    "program": r"os\.(system|popen|exec\w*|spawn\w*|posix_spawn)|subprocess\..*|pty\..*",
    "network": r"urllib\.request\..*|urlopen|build_opener|requests\..*|httpx\..*|aiohttp\..*|http\.client\..*|socket\.(create_connection|socket)|smtplib\..*|ftplib\..*",
    "archive": r"(zipfile|tarfile)\..*|shutil\.unpack_archive|ZipFile",
}  # fmt: skip
"""Kind of call: pattern of the whole name as it is written."""

ALLOWED: Final = {
    "encode/xml_input.py: XML": "the one parser: no entity, no DTD, no network, bounds before a tree is built",
    "auth/identity.py: JSON": "a provider's keys, 256 kB at most, RecursionError caught",
    "services/identity.py: JSON": "a provider's description, 256 kB at most, RecursionError caught",
    "server/metrics.py: JSON": "figures that a worker of this server has written",
    "store/sqlite/entities.py: JSON": "documents that this store has written",
    "doors/sos/kvp.py: network": "requests is the door's own module of that name",
    "doors/sos/pox.py: network": "requests is the door's own module of that name",
    "cli/__init__.py: code": "commands by the names of a table",
    "loading/times.py: expression": "an operator's format of time: texts escaped, each directive of fixed form and once",
    "doors/sos/filters.py: geometry": "coordinates read and bounded here: no text reaches GEOS",
    "services/places.py: geometry": "coordinates read and bounded at the door: no text reaches GEOS",
    "services/identity.py: network": "keys of the identity provider, from hosts that the operator has named, no redirect",
    "server/sockets.py: network": "the sockets that are listened on",
    "cli/bench.py: program": "load profiles, on an operator's command",
    "bench/tools.py: program": "load profiles, on an operator's command",
    "bench/tools.py: network": "load profiles, to a server they have started",
}  # fmt: skip


def calls() -> set[str]:
    """Every ``file: kind`` there is; patterns of regular expressions only where they are not written out."""
    found = set()
    for path in sorted((SOURCE / "thalweg").rglob("*.py")):
        name = path.relative_to(SOURCE / "thalweg").as_posix()
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            for kind, pattern in TRAPS.items():
                if re.fullmatch(pattern, called) and not (kind == "expression" and _is_written_out(node)):
                    found.add(f"{name}: {kind}")
    return found


def _is_written_out(node: ast.Call) -> bool:
    """Whether the pattern is made of texts and constants of the source alone (or escaped)."""
    if not node.args:
        return False
    return all(
        not isinstance(part, ast.Name) or part.id.lstrip("_").isupper() or part.id in ("map", "re", "sign", "srid")
        for part in ast.walk(node.args[0])
    )


def test_calls_that_have_crashed_others_are_made_where_they_are_guarded() -> None:
    allowed = dict(ALLOWED)
    for door in (*doors(), "common"):
        for name, reason in declared(door).traps.items():
            allowed.setdefault(name, reason)
    found = calls()
    unnamed = found - set(allowed)
    assert unnamed >= gaps.TRAPS, f"named now, take out of gaps.py: {gaps.TRAPS - unnamed}"
    assert unnamed - gaps.TRAPS == set(), "named neither here nor in the file of a door: guard the call, then say how"
    assert set(allowed) - found == set(), "no longer there"
    assert all(allowed.values())
