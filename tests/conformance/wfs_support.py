"""What tests of the WFS door share: a store with layers, requests by hand, and checked answers."""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import copytree, rmtree
from tempfile import mkdtemp
from typing import Any
from urllib.parse import urlencode, urlsplit
from uuid import uuid4

import numpy as np
import orjson
import shapely
from lxml import etree
from tests.conformance import door_support
from tests.conformance.door_support import OwnDoor, Validator

from thalweg.domain.access import Principal, Role
from thalweg.domain.features import Features, Field, FieldKind, GeometryKind, Layer
from thalweg.doors.http import Request
from thalweg.doors.wfs import make_door
from thalweg.settings import Settings

WFS1 = "{http://www.opengis.net/wfs}"
WFS2 = "{http://www.opengis.net/wfs/2.0}"
GML = "{http://www.opengis.net/gml}"
GML32 = "{http://www.opengis.net/gml/3.2}"
OWS10 = "{http://www.opengis.net/ows}"
OWS11 = "{http://www.opengis.net/ows/1.1}"
OGC = "{http://www.opengis.net/ogc}"
FES2 = "{http://www.opengis.net/fes/2.0}"
XSD = "{http://www.w3.org/2001/XMLSchema}"
BASE = "http://x.org/wfs"
URI = "http://x.org/default"
TW = f"{{{URI}}}"
ADMIN = Principal("ada", Role.ADMIN)
WRITER = Principal("wil", Role.NETWORK_MANAGER)
READER = Principal("", Role.VIEWER)
NOBODY = Principal("", Role.NOTHING)
NS20 = (
    'xmlns:wfs="http://www.opengis.net/wfs/2.0" xmlns:fes="http://www.opengis.net/fes/2.0" '
    f'xmlns:gml="http://www.opengis.net/gml/3.2" xmlns:tw="{URI}"'
)
NS1 = (
    'xmlns:wfs="http://www.opengis.net/wfs" xmlns:ogc="http://www.opengis.net/ogc" '
    f'xmlns:gml="http://www.opengis.net/gml" xmlns:tw="{URI}"'
)


class Answer(door_support.Answer):
    """A response, its body read, its document parsed if it is one."""

    @property
    def root(self) -> etree._Element:
        return etree.fromstring(self.body, etree.XMLParser(huge_tree=True))

    @property
    def exception(self) -> tuple[str, str | None]:
        """(code, locator), in whatever form."""
        if self.content_type == "application/json":
            (found,) = self.json["exceptions"]
            return found["code"], found["locator"]
        root = self.root
        if root.tag == OGC + "ServiceExceptionReport":
            (element,) = root.findall(OGC + "ServiceException")
            return str(element.get("code")), element.get("locator")
        if str(root.tag).endswith("}Envelope"):
            root = next(root.iter(OWS11 + "ExceptionReport"))
        for ows in (OWS10, OWS11):
            if root.tag == ows + "ExceptionReport":
                (element,) = root.findall(ows + "Exception")
                return str(element.get("exceptionCode")), element.get("locator")
        raise AssertionError(self.body[:800].decode())

    @property
    def ids(self) -> list[str]:
        """Ids of all features, in order."""
        if "json" in self.content_type:
            return [feature["id"] for feature in self.json["features"]]
        found = []
        for element in self.root.iter(etree.Element):
            if element.tag.startswith("{http://x.org/"):
                name = element.get(GML32 + "id") or element.get(GML + "id") or element.get("fid")
                if name:
                    found.append(name)
        return found

    @property
    def matched(self) -> int:
        return int(self.root.get("numberMatched", ""))

    @property
    def returned(self) -> int:
        return int(self.root.get("numberReturned", ""))

    @property
    def next(self) -> str:
        return self.root.get("next", "")

    @property
    def previous(self) -> str:
        return self.root.get("previous", "")

    def values(self, name: str) -> list[str]:
        """Texts of a property of all features."""
        return [element.text or "" for element in self.root.iter(TW + name)]


class Wfs(OwnDoor[Answer]):
    """The door over a store of its own. XML answers are checked by their schemas, features by the door's own."""

    def __init__(self, folder: Path, schemas: Validator, settings: Settings | None = None) -> None:
        super().__init__(folder, make_door, Answer, settings or Settings(public_url="http://x.org"))
        self.schemas = schemas
        self.folder = folder
        self._described: dict[str, Path] = {}
        self._families: dict[str, Path] = {}

    # ---------------------------------------------------------------- layers

    @property
    def workspace(self) -> Any:
        return self.services.catalogue.of("default").workspace

    @property
    def catalogue(self) -> Any:
        return self.services.catalogue.of("default")

    def put_layer(self, name: str, kind: GeometryKind, fields: Sequence[Field], **more: Any) -> Layer:
        layer = Layer(0, str(uuid4()), 0, name, geometry_kind=kind, fields=tuple(fields), **more)
        self._families.clear()
        return self.services.features.put_layer(self.workspace, layer).result(30)

    def load(self, layer: Layer, rows: Sequence[Mapping[str, Any]]) -> None:
        """Rows with ``id``, ``geometry`` (shapely) and fields."""
        batch = Features(
            np.array([row["id"] for row in rows], np.int64),
            [
                None if row.get("geometry") is None else shapely.to_wkb(row["geometry"], flavor="iso", byte_order=1)
                for row in rows
            ]
            if layer.has_geometry
            else [],
            {item.name: [row.get(item.name) for row in rows] for item in layer.fields},
        )
        self.services.features.load(layer, [batch], ADMIN.name)

    def load_osm(self, file: Path, fields: Sequence[Field], kind: GeometryKind) -> Layer:
        """A layer of the OpenStreetMap sample, under its file's name, ids as they are there."""
        layer = self.put_layer(file.stem, kind, fields, geometry_field="geom")
        rows = []
        for feature in orjson.loads(file.read_bytes())["features"]:
            number = int(feature["id"].rpartition(".")[2])
            rows.append(feature["properties"] | {"id": number, "geometry": shapely.geometry.shape(feature["geometry"])})
        rows.sort(key=lambda row: row["id"])
        self.load(layer, rows)
        return layer

    # ---------------------------------------------------------------- requests

    def send(self, request: Request, *, check: bool = True) -> Answer:
        answer = self.handle(request)
        kind = answer.content_type
        if check and ("xml" in kind or "gml" in kind) and "kml" not in kind and "soap" not in kind:
            self.check(answer)
        return answer

    def check(self, answer: Answer) -> None:
        """Valid by the official schemas and, where it has features, by the door's own description of them."""
        root = answer.root
        if root.tag == XSD + "schema":
            family = "gml2" if b"gml/2.1.2" in answer.body else None
            problems = self.schemas.validate(answer.body, family=family)
        else:
            kind = self._family(root)
            app = [self._described_as(kind)] if kind else []
            family = {"1.0.0": "gml2", "1.1.0": "gml3"}.get(kind)
            if str(root.tag).startswith(WFS1 + "WFS_") and not root.tag.endswith("Capabilities"):
                family = "gml2"
            problems = self.schemas.validate(answer.body, family=family, app_schemas=app, strict_features=bool(kind))
        assert problems == [], f"{problems[:3]}\n{answer.body[:3000].decode()}"

    def _family(self, root: etree._Element) -> str:
        """The version whose GML a document's features are in; empty without features."""
        own = [e for e in root.iter(etree.Element) if e.tag.startswith(TW)]
        if not own:
            return ""
        if own[0].get(GML32 + "id") is not None or "gml/3.2" in "".join(root.nsmap.values()):
            return "2.0.0"
        return "1.0.0" if any(e.get("fid") is not None for e in own) else "1.1.0"

    def _described_as(self, version: str) -> Path:
        if version not in self._families:
            answer = self.get(ADMIN, check=False, service="WFS", version=version, request="DescribeFeatureType")
            path = self.folder / f"described-{version}-{uuid4()}.xsd"
            path.write_bytes(answer.body)
            self._families[version] = path
        return self._families[version]

    def get(self, principal: Principal = READER, /, *, check: bool = True, **parameters: str) -> Answer:
        """GET with the parameters, encoded as a browser would."""
        return self.raw(urlencode(parameters), principal, check=check)

    def raw(self, query: str, principal: Principal = READER, *, check: bool = True) -> Answer:
        """GET with a query as it is."""
        request = Request("GET", "", query.encode(), (), b"", "default", BASE, principal, "r-1")
        return self.send(request, check=check)

    def follow(self, url: str, principal: Principal = READER) -> Answer:
        """GET an address that an answer gave."""
        assert url.startswith(BASE + "?"), url
        return self.raw(urlsplit(url).query, principal)

    def post(
        self,
        body: str | bytes,
        principal: Principal = WRITER,
        content_type: str = "text/xml",
        *,
        check: bool = True,
    ) -> Answer:
        data = body.encode() if isinstance(body, str) else body
        headers = ((b"content-type", content_type.encode()),)
        return self.send(Request("POST", "", b"", headers, data, "default", BASE, principal, "r-1"), check=check)

    def wfs2(self, request: str, /, principal: Principal = READER, **parameters: str) -> Answer:
        return self.get(principal, service="WFS", version="2.0.0", request=request, **parameters)

    def wfs11(self, request: str, /, **parameters: str) -> Answer:
        return self.get(service="WFS", version="1.1.0", request=request, **parameters)

    def wfs10(self, request: str, /, **parameters: str) -> Answer:
        return self.get(service="WFS", version="1.0.0", request=request, **parameters)

    def features(self, type_name: str, /, **parameters: str) -> Answer:
        """GetFeature 2.0."""
        return self.wfs2("GetFeature", typeNames=type_name, **parameters)

    def filtered(self, type_name: str, condition: str, /, **parameters: str) -> Answer:
        """GetFeature 2.0 by POST, with the content of a fes:Filter."""
        more = "".join(f' {name}="{value}"' for name, value in parameters.items())
        return self.post(
            f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0"{more}><wfs:Query typeNames="{type_name}">'
            f"<fes:Filter>{condition}</fes:Filter></wfs:Query></wfs:GetFeature>",
            READER,
        )

    def transaction(self, content: str, principal: Principal = WRITER, /, *, attributes: str = "") -> Answer:
        """Transaction 2.0."""
        return self.post(
            f'<wfs:Transaction {NS20} service="WFS" version="2.0.0" {attributes}>{content}</wfs:Transaction>', principal
        )


# ---------------------------------------------------------------- a small network

TOWN_FIELDS = (
    Field("name", FieldKind.TEXT),
    Field("kind", FieldKind.TEXT, length=20),
    Field("population", FieldKind.INTEGER),
    Field("height", FieldKind.NUMBER),
    Field("capital", FieldKind.BOOLEAN),
    Field("founded", FieldKind.DATE),
    Field("seen", FieldKind.DATETIME),
)
DAY_US = 86_400_000_000


def _seen(day: int) -> int:
    """That day of June 2020, noon UTC."""
    return (18414 + day - 1) * DAY_US + DAY_US // 2


# 18414 days after 1970-01-01 is 2020-06-01.
TOWNS: list[dict[str, Any]] = [
    {"id": 1, "geometry": shapely.Point(9.5, 47.1), "name": "Vaduz", "kind": "town", "population": 5696,
     "height": 455.5, "capital": True, "founded": -226_000, "seen": _seen(1)},
    {"id": 2, "geometry": shapely.Point(14.5, 46.05), "name": "Ljubljana", "kind": "city", "population": 272000,
     "height": 295.0, "capital": True, "founded": 0, "seen": _seen(2)},
    {"id": 3, "geometry": shapely.Point(15.65, 46.55), "name": "Maribor & <Ost>", "kind": "city", "population": 96000,
     "height": 262.25, "capital": False, "founded": -1, "seen": _seen(3)},
    {"id": 4, "geometry": shapely.Point(9.53, 47.17), "name": "Schaan", "kind": "village", "population": None,
     "height": None, "capital": None, "founded": None, "seen": None},
    {"id": 5, "geometry": None, "name": None, "kind": "village", "population": 5,
     "height": -0.5, "capital": False, "founded": 18414, "seen": _seen(5)},
]  # fmt: skip
ROADS: list[dict[str, Any]] = [
    {"id": 11, "geometry": shapely.LineString([(9.4, 47.0), (9.5, 47.1), (9.6, 47.2)]), "ref": "A1", "town": "Vaduz"},
    {"id": 12, "geometry": shapely.LineString([(14.0, 46.0), (15.0, 46.1)]), "ref": "B2", "town": "Ljubljana"},
]
AREAS: list[dict[str, Any]] = [
    {"id": 21, "geometry": shapely.MultiPolygon([shapely.box(9.45, 47.05, 9.55, 47.2)]), "use": "west"},
    {
        "id": 22,
        "geometry": shapely.Polygon(shapely.box(14, 46, 16, 47).exterior, [shapely.box(14.9, 46.4, 15, 46.5).exterior]),
        "use": "east",
    },
]
SWISS: list[dict[str, Any]] = [
    {"id": 31, "geometry": shapely.Point(2_600_000, 1_200_000), "name": "Bern"},
]


def small(wfs: Wfs) -> Wfs:
    """Layers of points, lines and areas in EPSG:4326, points in EPSG:2056, and a table without geometry."""
    wfs.load(wfs.put_layer("towns", GeometryKind.POINT, TOWN_FIELDS, geometry_field="place", title="Towns"), TOWNS)
    wfs.load(
        wfs.put_layer(
            "roads", GeometryKind.LINESTRING, (Field("ref", FieldKind.TEXT), Field("town", FieldKind.TEXT)),
            geometry_field="course", keywords=("traffic",), description="Roads & ways.",
        ),
        ROADS,
    )  # fmt: skip
    wfs.load(
        wfs.put_layer("areas", GeometryKind.MULTIPOLYGON, (Field("use", FieldKind.TEXT),), geometry_field="area"), AREAS
    )
    wfs.load(wfs.put_layer("swiss", GeometryKind.POINT, (Field("name", FieldKind.TEXT),), srid=2056), SWISS)
    wfs.load(
        wfs.put_layer("notes", GeometryKind.NONE, (Field("text", FieldKind.TEXT, required=True),)),
        [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}],
    )
    return wfs


_TEMPLATE: list[Path] = []


def fresh(folder: Path, schemas: Validator, settings: Settings | None = None) -> Wfs:
    """The same in a store of its own: a copy of one that is made once, as making it takes a third of a second."""
    if not _TEMPLATE:
        place = Path(mkdtemp(prefix="thalweg-wfs-"))
        atexit.register(rmtree, place, ignore_errors=True)
        small(Wfs(place, schemas)).close()
        _TEMPLATE.append(place)
    copytree(_TEMPLATE[0], folder, dirs_exist_ok=True)
    return Wfs(folder, schemas, settings)


TEXT = FieldKind.TEXT
INTEGER = FieldKind.INTEGER
PLACES = (
    Field("osm_id", INTEGER), Field("name", TEXT), Field("name_de", TEXT), Field("name_en", TEXT), Field("type", TEXT),
    Field("population", INTEGER), Field("ele", INTEGER), Field("country", TEXT), Field("z_order", INTEGER),
)  # fmt: skip
MAINROADS = (
    Field("osm_id", INTEGER), Field("name", TEXT), Field("type", TEXT), Field("ref", TEXT), Field("oneway", INTEGER),
    Field("bridge", INTEGER), Field("tunnel", INTEGER), Field("maxspeed", INTEGER), Field("lanes", INTEGER),
    Field("surface", TEXT), Field("z_order", INTEGER),
)  # fmt: skip
LANDUSAGES = (Field("osm_id", INTEGER), Field("name", TEXT), Field("type", TEXT))
