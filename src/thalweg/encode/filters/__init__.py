"""Languages of filters, each read into the tree of ``domain/filters.py``.

``fes`` (Filter Encoding 1.0, 1.1, 2.0), ``ecql`` (GeoServer's extended CQL), ``cql2_text`` and ``cql2_json`` (OGC
21-065r2). None of them knows a layer: names and types are checked by ``domain/filter_binding``.
"""
