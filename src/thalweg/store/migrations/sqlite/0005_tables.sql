-- Packages, their resources, and the records of tables.
--
-- Kinds of tables:
--   reference             package package_resource table_alias table_part table_removal table_draft
--   distributed by table  table_state table_block table_change   key: table_id, in every primary key
--   one set per table     made and dropped with it, P its part (see table_shape.py):
--     record_P            records: id, a column per field (fN, N the field's number)
--     record_P_text       full text of them (FTS5, without the texts themselves)
--     record_P_key, record_P_iN   indexes

CREATE TABLE package (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace_id INTEGER NOT NULL REFERENCES workspace (id),
    uuid         TEXT    NOT NULL UNIQUE,
    name         TEXT    NOT NULL UNIQUE,
    generation   INTEGER NOT NULL,
    document     TEXT    NOT NULL
) STRICT;
CREATE INDEX package_workspace ON package (workspace_id);

-- active: whether it has a table. part: of that table, 0: none.
CREATE TABLE package_resource (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace_id INTEGER NOT NULL REFERENCES workspace (id),
    package_id   INTEGER NOT NULL REFERENCES package (id),
    uuid         TEXT    NOT NULL UNIQUE,
    position     INTEGER NOT NULL,
    active       INTEGER NOT NULL,
    part         INTEGER NOT NULL,
    generation   INTEGER NOT NULL,
    document     TEXT    NOT NULL
) STRICT;
CREATE INDEX package_resource_order ON package_resource (package_id, position, id);
CREATE INDEX package_resource_active ON package_resource (id) WHERE active;

CREATE TABLE table_alias (
    name     TEXT    NOT NULL PRIMARY KEY,
    table_id INTEGER NOT NULL REFERENCES package_resource (id)
) STRICT, WITHOUT ROWID;
CREATE INDEX table_alias_table ON table_alias (table_id);

-- Numbers of parts, none of which is given twice.
CREATE TABLE table_part (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    table_id INTEGER NOT NULL
) STRICT;

-- What is maintained in the transaction of every write.
-- generation: raised by each. shape: raised when records go or come anywhere but at the end, so that what is known of
-- the blocks before it is void. next_id: of the next record. sequence: of the last line of the change log.
CREATE TABLE table_state (
    table_id   INTEGER PRIMARY KEY,
    generation INTEGER NOT NULL DEFAULT 0,
    shape      INTEGER NOT NULL DEFAULT 0,
    count      INTEGER NOT NULL DEFAULT 0,
    next_id    INTEGER NOT NULL DEFAULT 1,
    sequence   INTEGER NOT NULL DEFAULT 0
) STRICT;

-- How many records there are of each 1,024 numbers (block: id / 1024): where an offset lies.
CREATE TABLE table_block (
    table_id INTEGER NOT NULL,
    block    INTEGER NOT NULL,
    count    INTEGER NOT NULL,
    PRIMARY KEY (table_id, block)
) STRICT, WITHOUT ROWID;

-- What happened to records: 1, 2, 3 ... per table. before: cells by number of field, packed (see table_log.py).
CREATE TABLE table_change (
    table_id INTEGER NOT NULL,
    sequence INTEGER NOT NULL,
    kind     TEXT    NOT NULL,
    first    INTEGER NOT NULL,
    last     INTEGER NOT NULL,
    at_us    INTEGER NOT NULL,
    by       TEXT    NOT NULL,
    before   BLOB,
    PRIMARY KEY (table_id, sequence)
) STRICT, WITHOUT ROWID;

-- Parts that are gone for readers, but whose records are still to be removed in steps; and logs of tables that are
-- gone (part 0).
CREATE TABLE table_removal (
    part     INTEGER NOT NULL,
    table_id INTEGER NOT NULL,
    PRIMARY KEY (part, table_id)
) STRICT, WITHOUT ROWID;

-- Parts that are loaded, and that nobody sees before they take a table's place. Their rows of table_state, table_block
-- and table_change have the number of the part, negative. at_us: when it was written to last.
CREATE TABLE table_draft (
    part  INTEGER PRIMARY KEY,
    at_us INTEGER NOT NULL
) STRICT;
