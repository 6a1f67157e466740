"""Mappings, lists of stations and what is planned from folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from thalweg.domain.blocks import ValueKind
from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.domain.geometry import point
from thalweg.domain.time import Duration
from thalweg.loading.findings import Kind
from thalweg.loading.istsos import parse_name
from thalweg.loading.mapping import DEFAULT_MISSING, ColumnMapping, parse_mapping, read_mapping
from thalweg.loading.names import DEFAULT_UNITS, looks_like_ucum, property_path, short_name, ucum
from thalweg.loading.sources import FileTask, LoadOptions, plan_files
from thalweg.loading.stations_csv import read_station_list

MAPPING = """
delimiter = ";"
decimal = ","
zone = "Europe/Zurich"
missing = ["-999", -77.5]
timestep = "PT10M"
offering = "valley"
keywords = ["a", "b"]
licence = "CC-BY-4.0"

[columns.T]
property = "air:temperature"
unit = "°C"

[columns."RR mm"]
unit = "mm"
kind = "number"
missing = "x"
quality = "RR flag"

[[files]]
path = "a/*.csv"
station = "Alp 1"
longitude = 9.0
latitude = 46
altitude = 350.5
[files.columns.T]
property = "urn:example:t"
unit = "K"
name = "t"

[[files]]
path = "b.csv"
time = ["date", "clock"]
time_format = "%d.%m.%Y %H:%M"
header = 3
encoding = "cp1252"
x = 2600000
y = 1200000
srid = 2056
"""


def mapping_file(folder: Path, text: str, name: str = "stations.toml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_entries_take_the_defaults_beside_them(tmp_path: Path) -> None:
    first, second = read_mapping(mapping_file(tmp_path, MAPPING))
    assert (first.path, first.offering, first.format.delimiter, first.format.decimal) == ("a/*.csv", "valley", ";", ",")
    assert first.format.missing == ("-999", "-77.5")
    assert first.station.geometry == point(9.0, 46.0, 350.5)
    assert first.station.timestep == Duration(0, 600_000_000)
    assert (first.station.name, first.station.keywords, first.station.licence) == ("Alp 1", ("a", "b"), "CC-BY-4.0")
    assert first.columns["T"] == ColumnMapping("T", "urn:example:t", "K", property_name="t")
    assert first.columns["RR mm"] == ColumnMapping("RR mm", "", "mm", missing=("x",), quality="RR flag")
    assert second.columns["T"] == ColumnMapping("T", "air:temperature", "Cel")
    assert second.station.geometry == point(2600000.0, 1200000.0, srid=2056)
    assert second.format.time == ("date", "clock")
    assert (second.format.header, second.format.encoding, second.format.zone) == (3, "cp1252", "Europe/Zurich")


def test_a_mapping_without_files_describes_all_csv_files(tmp_path: Path) -> None:
    (entry,) = read_mapping(mapping_file(tmp_path, '[columns]\nt = { unit = "Cel", kind = "integer" }\n'))
    assert entry.path == "*.csv*"
    assert entry.columns["t"].kind is ValueKind.INTEGER
    assert entry.format.missing == DEFAULT_MISSING


@pytest.mark.parametrize(
    ("text", "parameter", "words"),
    [
        ("zome = 'UTC'", "zome", "Did you mean 'zone'?"),
        ("zone = 'Mars'", "zone", "not a zone"),
        ("delimiter = '.'", "delimiter", "none of , ; | tab auto"),
        ("decimal = 3", "decimal", "none of . , auto"),
        ("encoding = 'utf-16'", "encoding", "not an encoding"),
        ("encoding = 'base64'", "encoding", "not an encoding"),
        ("time_format = '%H'", "time_format", "year, month and day"),
        ("timestep = 'often'", "timestep", "not an ISO 8601 duration"),
        ("header = -1", "header", "whole number"),
        ("missing = [true]", "missing", "text, a number or a list"),
        ("longitude = 9.0", "longitude", "only of use together"),
        ("altitude = 300", "altitude", "of no use without"),
        ("longitude = 200.0\nlatitude = 1", "longitude", "within -180 and 180"),
        ("longitude = nan\nlatitude = 1", "longitude", "finite"),
        ("longitude = 1\nlatitude = 1\nx = 1", "x", "not both"),
        ("longitude = '9'\nlatitude = 1", "longitude", "must be a number"),
        ("keywords = 'a'", "keywords", "list of texts"),
        ("station = 5", "station", "must be a text"),
        ("files = 5", "files", "list of tables"),
        ("[[files]]\nstation = 'A'", "path", "'path' must name"),
        ("columns = []", "columns", "must be a table"),
        ("[columns]\nt = 'Cel'", "t", "must be a table such as"),
        ("[columns.t]\nunits = 'Cel'", "units", "Did you mean 'unit'?"),
        ("[columns.t]\nkind = 'float'", "kind", "number, integer, text, boolean"),
        ("[columns.t]\nquality = 99999", "quality", "not within"),
        ("[columns.t]\nproperty = 'air temperature'", "property", "no blanks"),
        ("[columns.t]\nunit = '<b>'", "unit", "no blanks"),
        ("[columns.t]\nquality = true", "quality", "quality index or the name"),
        ("[columns", "mapping", "not TOML"),
        ("a = " + "[" * 5000, "mapping", "not TOML"),
    ],
)
def test_mistakes_are_told_with_key_and_what_is_allowed(text: str, parameter: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter) as caught:
        read_mapping(mapping_file(tmp_path, text))
    assert caught.value.parameter == parameter
    assert words in caught.value.message
    assert "stations.toml" in caught.value.message


def test_a_list_of_stations_is_understood(tmp_path: Path) -> None:
    path = mapping_file(
        tmp_path,
        "file,station,lon,lat,alt_m,coordinates_from,timestep,property:unit list,missing marker\n"
        "a.csv,A,8.5,46.5,200,a map,PT10M,air_temperature:degC rain:mm,-999.9\n"
        "b.csv,B,,,,nobody,irregular,as A,empty\n",
        "stations.csv",
    )
    first, second = read_station_list(path)
    assert first.station.geometry == point(8.5, 46.5, 200.0)
    assert list(first.columns.values()) == [
        ColumnMapping("air_temperature", "", "Cel"), ColumnMapping("rain", "", "mm"),
    ]  # fmt: skip
    assert (first.format.missing, second.format.missing) == (("-999.9",), ())
    assert second.columns == first.columns
    assert (second.station.geometry, second.station.timestep) == (None, None)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("a.csv,A,8.5,,,,PT1H,t:Cel,none", "only of use together"),
        ("a.csv,A,east,46,,,PT1H,t:Cel,none", "not all numbers"),
        ("a.csv,A,8,96,,,PT1H,t:Cel,none", "within -90 and 90"),
        ("a.csv,A,8,46,,,PT1H,t,none", "not of the form property:unit"),
        ("a.csv,A,8,46,,,PT1H,as Z,none", "no line before describes"),
        ("a.csv,,8,46,,,PT1H,t:Cel,none", "must be filled"),
        ("a.csv,A,8,46,,,PT1H,,none", "no properties"),
        ("a.csv,A,8,46,,,PT1H,t:Cel,none,more", "more fields"),
    ],
)
def test_mistakes_in_a_list_are_told_by_line(row: str, words: str, tmp_path: Path) -> None:
    header = "file,station,lon,lat,alt_m,coordinates_from,timestep,property:unit list,missing marker\n"
    with pytest.raises(InvalidParameter) as caught:
        read_station_list(mapping_file(tmp_path, header + row + "\n", "stations.csv"))
    assert words in caught.value.message
    assert "line 2" in caught.value.message


# ---------------------------------------------------------------- plans


def planned(*sources: Path, **options: object) -> list[tuple[str, str, str, str]]:
    """(file, procedure, feature, problem) of each task."""
    tasks = plan_files(list(sources), LoadOptions(**options))  # type: ignore[arg-type]
    return [(task.path.name, task.procedure, task.feature, task.problem) for task in tasks]


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("time,t\n")


def entry(path: str, station: str, step: str, column: str) -> str:
    return f'[[files]]\npath = "{path}"\nstation = "{station}"\n{step}\n[files.columns.{column}]\nunit = "mm"\n'


def test_a_station_with_files_of_two_timesteps_becomes_two_procedures(tmp_path: Path) -> None:
    touch(tmp_path, "t.csv", "r.csv", "t2.csv")
    step = 'timestep = "PT10M"'
    mapping_file(
        tmp_path,
        entry("t.csv", "BED", step, "temp") + entry("r.csv", "BED", "", "rain") + entry("t2.csv", "BED", step, "rh"),
    )
    assert planned(tmp_path) == [
        ("t.csv", "BED", "BED", ""), ("r.csv", "BED_RAINFALL", "BED", ""), ("t2.csv", "BED", "BED", ""),
    ]  # fmt: skip
    notes = [task.notes for task in plan_files([tmp_path], LoadOptions())]
    assert [len(note) for note in notes] == [0, 1, 0]
    assert notes[1][0][0] is Kind.DECIDED


def test_a_glob_takes_names_of_stations_from_files(tmp_path: Path) -> None:
    touch(tmp_path, "x/Alp Grüm.csv", "x/b.csv.gz", "y.txt")
    mapping_file(tmp_path, '[[files]]\npath = "x/*"\n[files.columns.t]\nunit = "Cel"\n')
    assert planned(tmp_path) == [("Alp Grüm.csv", "Alp_Grum", "Alp_Grum", ""), ("b.csv.gz", "b", "b", "")]


def test_files_beside_a_mapping_are_told_and_missing_ones_too(tmp_path: Path) -> None:
    touch(tmp_path, "a.csv", "other.csv")
    mapping_file(tmp_path, entry("a.csv", "A", "", "t") + entry("gone.csv", "B", "", "t"))
    tasks = plan_files([tmp_path], LoadOptions())
    assert [(task.path.name, task.problem) for task in tasks] == [
        ("a.csv", ""), ("gone.csv", "no file is there that stations.toml names"), ("other.csv", "-"),
    ]  # fmt: skip
    assert tasks[2].notes == ((Kind.NOT_NAMED, "stations.toml does not name this file"),)


@pytest.mark.parametrize("path", ["../a.csv", "/etc/passwd", "x/../../a.csv"])
def test_a_mapping_stays_in_its_folder(path: str, tmp_path: Path) -> None:
    mapping_file(tmp_path, entry(path, "A", "", "t"))
    with pytest.raises(InvalidParameter, match="within its folder"):
        plan_files([tmp_path], LoadOptions())


def test_one_file_uses_the_mapping_of_its_folder(tmp_path: Path) -> None:
    touch(tmp_path, "a.csv", "b.csv")
    mapping_file(tmp_path, entry("a.csv", "A", "", "t") + entry("b.csv", "B", "", "t"))
    assert planned(tmp_path / "b.csv") == [("b.csv", "B", "B", "")]
    assert planned(tmp_path / "stations.toml") == [("a.csv", "A", "A", ""), ("b.csv", "B", "B", "")]
    assert planned(tmp_path / "b.csv", tmp_path, tmp_path / "a.csv") == [
        ("b.csv", "B", "B", ""),
        ("a.csv", "A", "A", ""),
    ]


def test_a_mapping_can_lie_elsewhere(tmp_path: Path) -> None:
    touch(tmp_path, "data/a.csv")
    mapping = mapping_file(tmp_path, entry("a.csv", "A", "", "t"), "m.toml")
    assert planned(tmp_path / "data", mapping=mapping) == [("a.csv", "A", "A", "")]
    assert planned(tmp_path / "data" / "a.csv", mapping=mapping) == [("a.csv", "A", "A", "")]


def test_files_without_any_mapping_are_told_what_to_do(tmp_path: Path) -> None:
    touch(tmp_path, "a.csv")
    ((_, _, _, problem),) = planned(tmp_path)
    assert "write a stations.toml, or name them by --column" in problem
    assert planned(tmp_path, columns=(ColumnMapping("t", "x", "1"),)) == [("a.csv", "a", "a", "")]


def test_nothing_to_load_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="holds nothing to load"):
        plan_files([tmp_path], LoadOptions())
    with pytest.raises(NotFound, match="no file or folder"):
        plan_files([tmp_path / "x"], LoadOptions())


def offering(folder: Path, **options: object) -> str:
    tasks: list[FileTask] = plan_files([folder], LoadOptions(**options))  # type: ignore[arg-type]
    return tasks[0].offering


def test_the_network_is_named_by_option_mapping_or_folder(tmp_path: Path) -> None:
    folder = tmp_path / "My Valley"
    touch(folder, "a.csv")
    mapping_file(folder, entry("a.csv", "A", "", "t"))
    assert offering(folder) == "My_Valley"
    assert offering(folder, offering="net") == "net"
    mapping_file(folder, 'offering = "valley"\n' + entry("a.csv", "A", "", "t"))
    assert offering(folder) == "valley"
    assert offering(folder, offering="net") == "net"


def test_options_win_over_the_mapping(tmp_path: Path) -> None:
    touch(tmp_path, "a.csv")
    mapping_file(tmp_path, 'zone = "UTC"\n' + entry("a.csv", "A", "", "t"))
    (task,) = plan_files([tmp_path], LoadOptions(format={"zone": "+01:00"}))
    assert task.mapping.format.zone == "+01:00"
    with pytest.raises(InvalidParameter):
        plan_files([tmp_path], LoadOptions(format={"zone": "nowhere"}))


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    ("column", "unit", "code", "path"),
    [
        ("air_rainfall", "mm", "mm", "air:rainfall"),
        ("air_humidity_relative", "%", "%", "air:humidity:relative"),
        ("temp_F", "degF", "[degF]", "air:temperature"),
        ("wind_speed_mph", "mph", "[mi_i]/h", "air:wind:velocity"),
        ("precip_in", "in", "[in_i]", "air:precipitation"),
        ("pressure_mbar", "hPa", "hPa", "air:pressure"),
        ("rain_mmday", "mm/d", "mm/d", "air:rainfall:rate"),
        ("precip_mm_day", "mm", "mm", "air:precipitation"),
        ("windspeed_ms", "m/s", "m/s", "air:wind:velocity"),
        ("soil_moisture_10cm", "m3/m3", "m3/m3", "soil:moisture:10cm"),
        ("discharge_m3_s", "m3/s", "m3/s", "river:water:discharge"),
        ("sea_surface_temperature_C", "Cel", "Cel", "sea:surface:temperature"),
        ("Température [°C]", "°C", "Cel", "air:temperature"),
        ("air:temperature:min", "K", "K", "air:temperature:min"),
        ("***", "kN", "kN", "unnamed"),
    ],
)
def test_names_and_units(column: str, unit: str, code: str, path: str) -> None:
    assert ucum(unit) == code
    assert property_path(column, code) == path


def test_short_names_are_fit_for_paths() -> None:
    assert [short_name(t) for t in ("Alp Grüm", "a/b", "../x", "", "é", "x" * 500)] == [
        "Alp_Grum", "a_b", "x", "unnamed", "e", "x" * 120,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "procedure", "end"),
    [
        ("T_LUGANO_20150503143000000.dat", "T_LUGANO", 1_430_663_400_000_000),
        ("P_20150503143000000+0200.dat", "P", 1_430_656_200_000_000),
        ("P_20150503143000000-0130.dat.gz", "P", 1_430_668_800_000_000),
        ("P_20150503143000250.dat", "P", 1_430_663_400_250_000),
        ("P_20150503143000.dat", "P", 1_430_663_400_000_000),
    ],
)
def test_names_of_csv2istsos_files(name: str, procedure: str, end: int) -> None:
    found = parse_name(name)
    assert found is not None
    assert (found.procedure, found.end_us) == (procedure, end)


@pytest.mark.parametrize("name", ["P.dat", "P_2015.dat", "P_20151303143000000.dat", "P_20150503143000000.csv", "_.dat"])
def test_other_names_are_no_csv2istsos_files(name: str) -> None:
    assert parse_name(name) is None


def test_parse_mapping_needs_tables() -> None:
    with pytest.raises(InvalidParameter):
        parse_mapping({"files": [1]}, "here")


@pytest.mark.parametrize(
    "unit",
    [
        *DEFAULT_UNITS.values(), "1", "10*6/L", "/m3", "ug/m3", "kg.m-2", "m.s-1", "MJ/m2", "kW.h", "[pH]", "m[H2O]",
        "{count}", "mm{rain}/h", "uS/cm", "1/min",
    ],
)  # fmt: skip
def test_units_of_weather_and_water_are_known(unit: str) -> None:
    assert looks_like_ucum(unit)


@pytest.mark.parametrize("unit", ["", "blobs", "degrees", "km/hour", "m^3", "°C", "mm/day", "m//s", "m/", "Celsius"])
def test_what_ucum_does_not_make_is_noticed(unit: str) -> None:
    assert not looks_like_ucum(unit)
