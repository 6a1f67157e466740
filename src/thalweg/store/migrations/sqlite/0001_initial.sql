-- First format of the embedded store.
--
-- Registry of table kinds (a back end that spreads its tables over machines uses it):
--   reference             store_meta counter workspace unit observed_property feature procedure sensor_description
--                         series offering offering_procedure track deletion account token lease
--   distributed by track  track_state chunk tail change        key: track_id, in every primary and unique key
--
-- Times are integers, microseconds UTC; intervals of the chunks are aligned to 1970-01-01T00:00:00Z.
-- Ids are 64-bit, rise with creation and are never given twice (AUTOINCREMENT).
-- Documents are JSON (RFC 8259) of the domain's dataclasses.

PRAGMA application_id = 1416129655;  -- "Thlw"

-- ---------------------------------------------------------------- the store itself

-- epoch: names this store's life, new after a restore. created_us: when it was made.
CREATE TABLE store_meta (
    key   TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- commit: number of the last commit that changed observations; access: generation of accounts and tokens;
-- reopened: how often a writer came back after an I/O error.
CREATE TABLE counter (
    name  TEXT    NOT NULL PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counter (name, value) VALUES ('commit', 0), ('access', 0), ('reopened', 0);

CREATE TABLE lease (
    name       TEXT    NOT NULL PRIMARY KEY,
    holder     TEXT    NOT NULL,
    expires_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- ---------------------------------------------------------------- catalogue

-- generation: raised by every change of the workspace's metadata; each entity keeps the one it last changed at, so
-- that a process reads what is newer than its picture and no more.
CREATE TABLE workspace (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid       TEXT    NOT NULL UNIQUE,
    name       TEXT    NOT NULL UNIQUE,
    generation INTEGER NOT NULL,
    document   TEXT    NOT NULL
) STRICT;

CREATE TABLE unit (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace_id INTEGER NOT NULL REFERENCES workspace (id),
    code         TEXT    NOT NULL,
    description  TEXT    NOT NULL,
    generation   INTEGER NOT NULL,
    UNIQUE (workspace_id, code)
) STRICT;
CREATE INDEX unit_generation ON unit (workspace_id, generation);

CREATE TABLE observed_property (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace_id      INTEGER NOT NULL REFERENCES workspace (id),
    uuid              TEXT    NOT NULL UNIQUE,
    identifier        TEXT    NOT NULL,
    name              TEXT    NOT NULL,
    description       TEXT    NOT NULL,
    value_constraint  TEXT,
    generation        INTEGER NOT NULL,
    UNIQUE (workspace_id, identifier),
    UNIQUE (workspace_id, name)
) STRICT;
CREATE INDEX observed_property_generation ON observed_property (workspace_id, generation);

CREATE TABLE feature (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace_id INTEGER NOT NULL REFERENCES workspace (id),
    uuid         TEXT    NOT NULL UNIQUE,
    identifier   TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    description  TEXT    NOT NULL,
    type_uri     TEXT    NOT NULL,
    sampled      TEXT    NOT NULL,
    geometry     TEXT,
    generation   INTEGER NOT NULL,
    UNIQUE (workspace_id, identifier),
    UNIQUE (workspace_id, name)
) STRICT;
CREATE INDEX feature_generation ON feature (workspace_id, generation);

-- sampling, acquisition: ISO 8601 durations as months and microseconds, both NULL where unknown.
CREATE TABLE procedure (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace_id       INTEGER NOT NULL REFERENCES workspace (id),
    uuid               TEXT    NOT NULL UNIQUE,
    identifier         TEXT    NOT NULL,
    name               TEXT    NOT NULL,
    assigned_id        TEXT    NOT NULL,
    kind               TEXT    NOT NULL,
    title              TEXT    NOT NULL,
    feature_id         INTEGER REFERENCES feature (id),
    srid               INTEGER NOT NULL,
    sampling_months    INTEGER,
    sampling_us        INTEGER,
    acquisition_months INTEGER,
    acquisition_us     INTEGER,
    generation         INTEGER NOT NULL,
    UNIQUE (workspace_id, identifier),
    UNIQUE (workspace_id, name)
) STRICT;
CREATE UNIQUE INDEX procedure_assigned_id ON procedure (workspace_id, assigned_id) WHERE assigned_id <> '';
CREATE INDEX procedure_generation ON procedure (workspace_id, generation);

-- Apart, so that listing procedures does not read documents.
CREATE TABLE sensor_description (
    procedure_id INTEGER PRIMARY KEY REFERENCES procedure (id),
    document     TEXT    NOT NULL
) STRICT;

CREATE TABLE series (
    procedure_id     INTEGER NOT NULL REFERENCES procedure (id),
    place            INTEGER NOT NULL,
    property_id      INTEGER NOT NULL REFERENCES observed_property (id),
    unit_id          INTEGER NOT NULL REFERENCES unit (id),
    kind             TEXT    NOT NULL,
    value_constraint TEXT,
    name             TEXT    NOT NULL,
    PRIMARY KEY (procedure_id, place),
    UNIQUE (procedure_id, property_id)
) STRICT, WITHOUT ROWID;

-- procedure_id: set for the offering that belongs to one procedure alone.
-- members_generation: when its membership was last changed other than by a procedure joining at the end.
CREATE TABLE offering (
    id                 INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace_id       INTEGER NOT NULL REFERENCES workspace (id),
    uuid               TEXT    NOT NULL UNIQUE,
    identifier         TEXT    NOT NULL,
    name               TEXT    NOT NULL,
    description        TEXT    NOT NULL,
    procedure_id       INTEGER REFERENCES procedure (id),
    active             INTEGER NOT NULL,
    members_generation INTEGER NOT NULL,
    generation         INTEGER NOT NULL,
    UNIQUE (workspace_id, identifier),
    UNIQUE (workspace_id, name)
) STRICT;
CREATE INDEX offering_generation ON offering (workspace_id, generation);
CREATE INDEX offering_of_procedure ON offering (procedure_id) WHERE procedure_id IS NOT NULL;

CREATE TABLE offering_procedure (
    offering_id  INTEGER NOT NULL REFERENCES offering (id),
    place        INTEGER NOT NULL,
    procedure_id INTEGER NOT NULL REFERENCES procedure (id),
    generation   INTEGER NOT NULL,
    PRIMARY KEY (offering_id, place),
    UNIQUE (offering_id, procedure_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX offering_procedure_joined ON offering_procedure (offering_id, generation);
CREATE INDEX offering_procedure_member ON offering_procedure (procedure_id);

-- One procedure at one feature of interest: the key that observations are spread by.
-- window_us: length of the windows its chunks are aligned to, from its cadence; NULL until first needed, then fixed.
CREATE TABLE track (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace_id INTEGER NOT NULL REFERENCES workspace (id),
    procedure_id INTEGER NOT NULL REFERENCES procedure (id),
    feature_id   INTEGER NOT NULL REFERENCES feature (id),
    window_us    INTEGER,
    generation   INTEGER NOT NULL,
    UNIQUE (procedure_id, feature_id)
) STRICT;
CREATE INDEX track_generation ON track (workspace_id, generation);

-- What is gone, for processes that still have it in their picture.
CREATE TABLE deletion (
    workspace_id INTEGER NOT NULL REFERENCES workspace (id),
    generation   INTEGER NOT NULL,
    kind         TEXT    NOT NULL,
    entity_id    INTEGER NOT NULL,
    PRIMARY KEY (workspace_id, generation, kind, entity_id)
) STRICT, WITHOUT ROWID;

-- ---------------------------------------------------------------- observations

-- Begin, end, count and last values, maintained in the transaction of every write.
-- generation: number of the commit that last changed the track's rows. change_sequence: of its newest change.
-- longest_us: no row's phenomenon time is longer; never lowered. position: of the newest row, three float64.
-- series: per observed property, packed (see states.py).
CREATE TABLE track_state (
    track_id        INTEGER PRIMARY KEY,
    begin_us        INTEGER,
    end_us          INTEGER,
    rows            INTEGER NOT NULL DEFAULT 0,
    tail_rows       INTEGER NOT NULL DEFAULT 0,
    generation      INTEGER NOT NULL DEFAULT 0,
    change_sequence INTEGER NOT NULL DEFAULT 0,
    changed_us      INTEGER NOT NULL DEFAULT 0,
    longest_us      INTEGER NOT NULL DEFAULT 0,
    position        BLOB,
    series          BLOB    NOT NULL
) STRICT;
CREATE INDEX track_state_generation ON track_state (generation);

-- Sealed rows: some hundred to 4,096 of one aligned window. first_us and last_us are phenomenon ends of its first and
-- last row; spans of a track's chunks never overlap. Windows are [window_us, window_us + track.window_us).
CREATE TABLE chunk (
    id        INTEGER PRIMARY KEY,
    track_id  INTEGER NOT NULL,
    first_us  INTEGER NOT NULL,
    last_us   INTEGER NOT NULL,
    window_us INTEGER NOT NULL,
    rows      INTEGER NOT NULL,
    block     BLOB    NOT NULL
) STRICT;
CREATE UNIQUE INDEX chunk_key ON chunk (track_id, first_us);

-- Rows not sealed yet, of any time. A row whose key is in a chunk too holds cells laid over the chunk's.
CREATE TABLE tail (
    track_id  INTEGER NOT NULL,
    end_us    INTEGER NOT NULL,
    begin_us  INTEGER NOT NULL,
    result_us INTEGER NOT NULL,
    cells     BLOB    NOT NULL,
    PRIMARY KEY (track_id, end_us, begin_us, result_us)
) STRICT, WITHOUT ROWID;

-- Late rows, corrections and deletions: 1, 2, 3 ... per track.
CREATE TABLE change (
    id           INTEGER PRIMARY KEY,
    track_id     INTEGER NOT NULL,
    sequence     INTEGER NOT NULL,
    kind         TEXT    NOT NULL,
    at_us        INTEGER NOT NULL,
    by           TEXT    NOT NULL,
    before       BLOB,
    after        BLOB
) STRICT;
CREATE UNIQUE INDEX change_key ON change (track_id, sequence);

-- ---------------------------------------------------------------- access

CREATE TABLE account (
    name          TEXT    NOT NULL PRIMARY KEY,
    role          INTEGER NOT NULL,
    password_hash TEXT    NOT NULL,
    created_us    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- digest: SHA-256 of the token's text, hex; the text itself is nowhere.
CREATE TABLE token (
    digest     TEXT    NOT NULL PRIMARY KEY,
    account    TEXT    NOT NULL REFERENCES account (name),
    label      TEXT    NOT NULL,
    created_us INTEGER NOT NULL,
    expires_us INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX token_account ON token (account);
