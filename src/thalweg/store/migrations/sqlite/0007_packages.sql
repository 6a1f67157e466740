-- The catalogue around tables: what packages are found by, groups, vocabularies, files, and jobs that load them.
--
-- All are reference tables but package_term (key: package_id, with what it is found by before it).

-- What packages are listed, filtered and sorted by; a row per package, written with it.
CREATE TABLE package_entry (
    package_id   INTEGER PRIMARY KEY,
    workspace_id INTEGER NOT NULL,
    public       INTEGER NOT NULL,
    active       INTEGER NOT NULL,
    name         TEXT    NOT NULL,
    title        TEXT    NOT NULL,
    created_us   INTEGER NOT NULL,
    modified_us  INTEGER NOT NULL
) STRICT;
CREATE INDEX package_entry_modified ON package_entry (modified_us);
CREATE INDEX package_entry_workspace ON package_entry (workspace_id);

-- Values of fields: tags, res_format, license_id ... resource_id 0: of the package itself.
CREATE TABLE package_term (
    field       TEXT    NOT NULL,
    value       TEXT    NOT NULL,
    package_id  INTEGER NOT NULL,
    resource_id INTEGER NOT NULL,
    PRIMARY KEY (field, value, package_id, resource_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX package_term_package ON package_term (package_id, resource_id);

-- Words: rowid is a package's id, or a resource's with a minus.
CREATE VIRTUAL TABLE package_text USING fts5 (
    name, title, tags, notes, body, content = '', contentless_delete = 1,
    tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE package_word USING fts5vocab (package_text, instance);

CREATE TABLE package_group (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid       TEXT    NOT NULL UNIQUE,
    name       TEXT    NOT NULL UNIQUE,
    generation INTEGER NOT NULL,
    document   TEXT    NOT NULL
) STRICT;
CREATE TABLE package_group_member (
    group_id   INTEGER NOT NULL REFERENCES package_group (id),
    package_id INTEGER NOT NULL,
    PRIMARY KEY (group_id, package_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX package_group_member_package ON package_group_member (package_id, group_id);

CREATE TABLE vocabulary (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid     TEXT    NOT NULL UNIQUE,
    name     TEXT    NOT NULL UNIQUE,
    document TEXT    NOT NULL
) STRICT;

-- Files in the folder beside the database, by the key that is their name there. A resource has one at most.
CREATE TABLE package_file (
    key      TEXT    NOT NULL PRIMARY KEY,
    table_id INTEGER NOT NULL UNIQUE,
    size     INTEGER NOT NULL,
    sha256   TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
-- Files that no resource has any more, to be removed.
CREATE TABLE file_removal (key TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID;

-- Loading of a resource's file into its table: the newest job of each resource.
-- state: pending, running, complete, error. seen_us: last sign of life of a running one.
CREATE TABLE table_job (
    table_id   INTEGER PRIMARY KEY REFERENCES package_resource (id),
    uuid       TEXT    NOT NULL UNIQUE,
    state      TEXT    NOT NULL,
    asked_us   INTEGER NOT NULL,
    seen_us    INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    document   TEXT    NOT NULL
) STRICT;
CREATE INDEX table_job_open ON table_job (asked_us) WHERE state IN ('pending', 'running');
