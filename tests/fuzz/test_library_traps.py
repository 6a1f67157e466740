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
    "services/made_packages.py: expression": "stars and question marks alone, by fnmatch, whose stars never go back",
    "store/sqlite/sql/selects.py: expression": "names and numbers made here, in the text of a statement made here",
    "store/sqlite/sql/made.py: JSON": "what the same process has written to be told by SQLite",
    "domain/table_columns.py: JSON": "fragments of what has been written here from values of columns",
    "services/identity.py: network": "keys of the identity provider, from hosts that the operator has named, no redirect",
    "server/sockets.py: network": "the sockets that are listened on",
    "cli/bench.py: program": "load profiles, on an operator's command",
    "bench/wfs_cases.py: JSON": "answers of a server that an operator measures",
    "bench/wfs_runs.py: network": "load profiles, to a server they have started",
    "bench/wfs_runs.py: program": "load profiles, on an operator's command",
    "bench/tools.py: program": "load profiles, on an operator's command",
    "bench/tools.py: network": "load profiles, to a server they have started",
    "domain/filter_functions.py: geometry": "of stored features and of filters, whose form and depth were checked",
    "domain/filter_values.py: expression": "the fixed pieces of a LIKE, escaped, each searched for without going back",
    "domain/spatial_test.py: geometry": "of stored features and of filters, whose form and depth were checked",
    "encode/feature_formats/columns.py: geometry": "of stored features: domain/wkb.py has checked form, depth and size",
    "encode/feature_formats/shapefile.py: archive": "written, not read",
    "encode/feature_geometry.py: geometry": "of features that domain/wkb.py has checked",
    "services/feature_projection.py: geometry": "of stored features, or of a batch that domain/wkb.py has checked",
    "services/filter_crs.py: geometry": "of filters, as their readers have made it",
    "services/procedure_layers.py: geometry": "places of procedures, bounded at the door and read back from the store",
    "store/sqlite/filter_sql.py: geometry": "of filters, as their readers have made it",
    "store/sqlite/layer_check.py: geometry": "stored, and checked by domain/wkb.py once more before",
    "store/sqlite/layer_checks.py: geometry": "after domain/wkb.py has checked each: form, counts, depth, size",
    "store/sqlite/layer_entities.py: JSON": "documents that this store has written",
    "store/sqlite/layer_groups.py: geometry": "of stored features",
    "store/sqlite/layer_log.py: JSON": "records that this store has written",
    "store/sqlite/layer_select.py: geometry": "of stored features, and of filters as their readers have made it",
    "store/sqlite/stream_entities.py: JSON": "documents that this store has written",
    "loading/features/crs.py: CRS": "an operator's file: 64 KiB of WKT, 40 deep, nothing but WKT; no request reaches it",
    "loading/features/gdal.py: geometry": "GDAL's WKB, through loading/features/geometries.py: refused_wkb before each",
    "loading/features/geojson.py: JSON": "an operator's file, 256 MiB a feature; orjson refuses more than 1,024 levels",
    "loading/features/geometries.py: geometry": "refused_wkb has checked form and depth; ragged arrays are made of numbers here",
    "loading/features/geopackage.py: geometry": "through loading/features/geometries.py: refused_wkb before each",
    "loading/features/json_split.py: JSON": "what stands around the features, 16 MiB; orjson refuses more than 1,024 levels",
    "loading/features/opening.py: archive": "the names in an operator's file",
    "loading/features/prepare.py: geometry": "batches that were read and checked a moment ago",
    "loading/features/shapefile.py: archive": "an operator's file, read as a stream, record by record; side files 1 MiB; nothing is unpacked",
    "loading/features/spool.py: code": "marshal of the load's own bytes, in a file without a name and on pipes to its processes",
    "loading/features/table.py: geometry": "an operator's file: kind and depth of the WKT are looked at before",
    **dict.fromkeys(
        ("bench/answers.py: JSON", "bench/answers.py: XML", "bench/datastore.py: JSON", "bench/sos.py: XML", "bench/wfs.py: XML"),
        "answers of servers that a load profile asks",
    ),
    **dict.fromkeys(
        ("bench/compare.py: program", "bench/context.py: program", "bench/targets.py: program", "bench/wrk.py: program"),
        "load profiles, on an operator's command",
    ),
    **dict.fromkeys(
        ("bench/layers.py: JSON", "bench/results.py: JSON", "bench/wrk.py: JSON"), "files and programs of load profiles"
    ),
    "bench/ldes.py: expression": "names of the profile's own views",
    **dict.fromkeys(
        ("bench/ldes.py: template", "bench/sos.py: template", "bench/sos_users.py: template"),
        "a class of that name: bytes with places for numbers",
    ),
    "bench/targets.py: network": "load profiles, to a server they have started",
    "bench/workloads.py: network": "requests is a generator of that name",
}  # fmt: skip


def calls(source: Path = SOURCE) -> set[str]:
    """Every ``file: kind`` there is; patterns of regular expressions only where they are not written out."""
    found = set()
    for path in sorted((source / "thalweg").rglob("*.py")):
        name = path.relative_to(source / "thalweg").as_posix()
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
    assert found - set(allowed) == set(), "named neither here nor in the file of a door: guard the call, then say how"
    assert set(allowed) - found == set(), "no longer there"
    assert all(allowed.values())


def test_a_call_that_nobody_names_is_seen(tmp_path: Path) -> None:
    """The test above can fail."""
    (tmp_path / "thalweg").mkdir()
    (tmp_path / "thalweg" / "new.py").write_text(
        "import re, json, shapely\n_OWN = re.compile(r'a')\n\ndef read(body, text, pattern):\n    json.loads(body)\n"
        "    shapely.from_wkt(text)\n    re.search(pattern, text)\n    eval(text)\n"
    )
    assert calls(tmp_path) == {"new.py: JSON", "new.py: geometry", "new.py: expression", "new.py: code"}
