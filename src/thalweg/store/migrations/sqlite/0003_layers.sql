-- Layers and their features.
--
-- Kinds of tables:
--   reference             layer layer_catalogue stored_query feature_lock layer_removal
--   distributed by layer  layer_state layer_group layer_change feature_lock_member   key: layer_id, in every primary key
--   one set per layer     made and dropped with it, N its id (see layer_tables.py):
--     layer_N             features: id, version, a typed column per field (fM, M the field's number), geometry (WKB)
--     layer_N_box         R*Tree of their boxes
--     layer_N_form_F      a fragment per feature in form F (FragmentForm's number)

CREATE TABLE layer (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace_id INTEGER NOT NULL REFERENCES workspace (id),
    uuid         TEXT    NOT NULL UNIQUE,
    name         TEXT    NOT NULL,
    generation   INTEGER NOT NULL,
    document     TEXT    NOT NULL,
    UNIQUE (workspace_id, name)
) STRICT;

-- Raised by every change of the metadata of one of the workspace's layers or stored queries.
CREATE TABLE layer_catalogue (
    workspace_id INTEGER PRIMARY KEY REFERENCES workspace (id),
    generation   INTEGER NOT NULL
) STRICT;

-- What is maintained in the transaction of every write. The box is exact; NULL without any geometry.
-- next_number: of the next feature that comes without one. next_field: number of the next new field.
-- stamp: what all its fragments were encoded by, 0 if not all by one; pending: the same while they are encoded anew.
CREATE TABLE layer_state (
    layer_id    INTEGER PRIMARY KEY,
    generation  INTEGER NOT NULL DEFAULT 0,
    count       INTEGER NOT NULL DEFAULT 0,
    min_x       REAL,
    min_y       REAL,
    max_x       REAL,
    max_y       REAL,
    changed_us  INTEGER NOT NULL DEFAULT 0,
    sequence    INTEGER NOT NULL DEFAULT 0,
    next_number INTEGER NOT NULL DEFAULT 1,
    next_field  INTEGER NOT NULL DEFAULT 1,
    stamp       INTEGER NOT NULL DEFAULT 0,
    pending     INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Some hundred features that follow one another by id: those from first on, up to the next group's first. Offsets
-- are found by their counts, and the layer's box by the indexes of their boxes, which are exact, whatever is deleted.
CREATE TABLE layer_group (
    layer_id INTEGER NOT NULL,
    first    INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    min_x    REAL,
    min_y    REAL,
    max_x    REAL,
    max_y    REAL,
    PRIMARY KEY (layer_id, first)
) STRICT, WITHOUT ROWID;
CREATE INDEX layer_group_min_x ON layer_group (layer_id, min_x);
CREATE INDEX layer_group_min_y ON layer_group (layer_id, min_y);
CREATE INDEX layer_group_max_x ON layer_group (layer_id, max_x);
CREATE INDEX layer_group_max_y ON layer_group (layer_id, max_y);

-- What happened to features: 1, 2, 3 ... per layer. before: the feature as it was, packed (see layer_log.py).
CREATE TABLE layer_change (
    layer_id INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    kind     TEXT    NOT NULL,
    number   INTEGER NOT NULL,
    last     INTEGER NOT NULL,
    version  INTEGER NOT NULL,
    at_us    INTEGER NOT NULL,
    by       TEXT    NOT NULL,
    before   BLOB,
    PRIMARY KEY (layer_id, sequence)
) STRICT, WITHOUT ROWID;
CREATE INDEX layer_change_feature ON layer_change (layer_id, number, sequence) WHERE kind <> 'load';

CREATE TABLE feature_lock (
    id          TEXT    NOT NULL PRIMARY KEY,
    expires_us  INTEGER NOT NULL,
    duration_us INTEGER NOT NULL,
    by          TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX feature_lock_expiry ON feature_lock (expires_us);

CREATE TABLE feature_lock_member (
    layer_id INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    lock_id  TEXT    NOT NULL,
    PRIMARY KEY (layer_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX feature_lock_member_lock ON feature_lock_member (lock_id);

CREATE TABLE stored_query (
    workspace_id INTEGER NOT NULL REFERENCES workspace (id),
    identifier   TEXT    NOT NULL,
    document     TEXT    NOT NULL,
    PRIMARY KEY (workspace_id, identifier)
) STRICT, WITHOUT ROWID;

-- Layers that are gone, but whose rows are still to be removed in steps.
CREATE TABLE layer_removal (
    layer_id INTEGER PRIMARY KEY
) STRICT;
