"""SensorML 1.0.1 (OGC 07-000) and 2.0 (OGC 12-000): sensors as they are registered and described."""

from thalweg.encode.sensorml.model import (
    SENSORML_20,
    SENSORML_101,
    CrsName,
    ParseCrs,
    SensorDocument,
    SensorOutput,
    SensorView,
    SeriesView,
    format_uri,
)
from thalweg.encode.sensorml.reading import read_sensor
from thalweg.encode.sensorml.sensorml20 import write_sensorml20
from thalweg.encode.sensorml.sensorml101 import write_sensorml101

__all__ = [
    "SENSORML_20",
    "SENSORML_101",
    "CrsName",
    "ParseCrs",
    "SensorDocument",
    "SensorOutput",
    "SensorView",
    "SeriesView",
    "format_uri",
    "read_sensor",
    "write_sensorml20",
    "write_sensorml101",
]
