-- Who is told of new records, and how far.
--
-- Kinds of tables: reference: web_hook.

-- resource: UUID of the table's resource, or of the one that a procedure is. position: _id of the last record that was
-- delivered. failures: deliveries that failed one after the other; next_us: not tried again before. secret: what
-- deliveries are signed with.
CREATE TABLE web_hook (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid         TEXT    NOT NULL UNIQUE,
    workspace_id INTEGER NOT NULL REFERENCES workspace (id),
    resource     TEXT    NOT NULL,
    url          TEXT    NOT NULL,
    secret       TEXT    NOT NULL,
    by           TEXT    NOT NULL,
    created_us   INTEGER NOT NULL,
    position     INTEGER NOT NULL,
    failures     INTEGER NOT NULL DEFAULT 0,
    next_us      INTEGER NOT NULL DEFAULT 0,
    problem      TEXT    NOT NULL DEFAULT ''
) STRICT;
