-- Event streams.
--
-- Registry of table kinds:
--   reference              event_stream catalogue_document stream_removal
--   distributed by stream  stream_state member member_key member_dictionary stream_view view_state bucket page
--                          placement aging version expired_member
--                          key: stream_id, in every primary and unique key
--
-- View ids count from 1 in each stream and are never given twice; the retention of an event source is kept as a view
-- without nodes. Digests are keyed with the stream's UUID, so that nobody can prepare colliding IRIs.

-- streams: generation of all streams' and views' descriptions.
INSERT INTO counter (name, value) VALUES ('streams', 0);

CREATE TABLE event_stream (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    workspace_id INTEGER NOT NULL REFERENCES workspace (id),
    uuid         TEXT    NOT NULL UNIQUE,
    name         TEXT    NOT NULL,
    generation   INTEGER NOT NULL,
    document     TEXT    NOT NULL,
    UNIQUE (workspace_id, name)
) STRICT;

-- A workspace's own DCAT document.
CREATE TABLE catalogue_document (
    workspace_id INTEGER PRIMARY KEY REFERENCES workspace (id),
    id           TEXT NOT NULL,
    document     TEXT NOT NULL
) STRICT;

-- What is deleted already and whose rows are still to go; view_id 0: the whole stream.
CREATE TABLE stream_removal (
    stream_id INTEGER NOT NULL,
    view_id   INTEGER NOT NULL,
    PRIMARY KEY (stream_id, view_id)
) STRICT, WITHOUT ROWID;

-- sequence: of the newest member ever. generation: raised by every change of the members.
-- dictionary: version that new members are compressed with, 0 for none. fresh_keys: rows of member_key on level 0;
-- settled: digest up to which the current round of settling has come.
-- next_view: id of the next view. source_view: the view that stands for the event source's retention, 0 for none.
CREATE TABLE stream_state (
    stream_id   INTEGER PRIMARY KEY,
    uuid        TEXT    NOT NULL,
    is_closed   INTEGER NOT NULL DEFAULT 0,
    sequence    INTEGER NOT NULL DEFAULT 0,
    members     INTEGER NOT NULL DEFAULT 0,
    size_bytes  INTEGER NOT NULL DEFAULT 0,
    generation  INTEGER NOT NULL DEFAULT 0,
    dictionary  INTEGER NOT NULL DEFAULT 0,
    fresh_keys  INTEGER NOT NULL DEFAULT 0,
    settled     INTEGER NOT NULL DEFAULT -9223372036854775808,
    next_view   INTEGER NOT NULL DEFAULT 1,
    source_view INTEGER NOT NULL DEFAULT 0
) STRICT;

-- id: stream_id * 2^40 + sequence, so that a stream's members lie together in their order and the table needs no
-- index beside. at_us: the timestamp. body: a zstd frame with checksum; see stream_codec.py.
CREATE TABLE member (
    id         INTEGER PRIMARY KEY,
    at_us      INTEGER,
    dictionary INTEGER NOT NULL,
    body       BLOB    NOT NULL
) STRICT;

-- Digests of the members' IRIs. New ones are on level 0, a small tree; a settled digest costs the rewriting of a page
-- of the large one, so they go to level 1 many at a time, in the order of the tree.
CREATE TABLE member_key (
    stream_id INTEGER NOT NULL,
    level     INTEGER NOT NULL,
    digest    INTEGER NOT NULL,
    sequence  INTEGER NOT NULL,
    PRIMARY KEY (stream_id, level, digest, sequence)
) STRICT, WITHOUT ROWID;

CREATE TABLE member_dictionary (
    stream_id  INTEGER NOT NULL,
    version    INTEGER NOT NULL,
    dictionary BLOB    NOT NULL,
    PRIMARY KEY (stream_id, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE stream_view (
    stream_id INTEGER NOT NULL,
    id        INTEGER NOT NULL,
    name      TEXT    NOT NULL,
    document  TEXT    NOT NULL,
    PRIMARY KEY (stream_id, id),
    UNIQUE (stream_id, name)
) STRICT, WITHOUT ROWID;

-- position: sequence of the newest member that is in the buckets. members: each once; placed: once per bucket.
-- generation: of the newest step that changed a node; nodes keep the one they last changed at.
CREATE TABLE view_state (
    stream_id   INTEGER NOT NULL,
    view_id     INTEGER NOT NULL,
    position    INTEGER NOT NULL DEFAULT 0,
    members     INTEGER NOT NULL DEFAULT 0,
    placed      INTEGER NOT NULL DEFAULT 0,
    buckets     INTEGER NOT NULL DEFAULT 0,
    pages       INTEGER NOT NULL DEFAULT 0,
    generation  INTEGER NOT NULL DEFAULT 0,
    next_bucket INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (stream_id, view_id)
) STRICT, WITHOUT ROWID;

-- query: canonical query string, empty for the root. members: in it and all below, each once; own: on its own pages.
-- first_page: where reading begins; open_page: where members are added. pages_made: numbers given so far, never again.
-- dead: members of its closed pages that retention has let go; is_due: there are new ones, so pages may have to go.
-- is_removed: empty, off all lists, until it is needed.
CREATE TABLE bucket (
    stream_id  INTEGER NOT NULL,
    view_id    INTEGER NOT NULL,
    id         INTEGER NOT NULL,
    parent_id  INTEGER NOT NULL,
    query      TEXT    NOT NULL,
    members    INTEGER NOT NULL,
    own        INTEGER NOT NULL,
    first_page INTEGER,
    open_page  INTEGER,
    pages_made INTEGER NOT NULL,
    dead       INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    is_removed INTEGER NOT NULL,
    is_due     INTEGER NOT NULL,
    PRIMARY KEY (stream_id, view_id, id),
    UNIQUE (stream_id, view_id, query)
) STRICT, WITHOUT ROWID;
CREATE INDEX bucket_parent ON bucket (stream_id, view_id, parent_id) WHERE is_removed = 0;
CREATE INDEX bucket_due ON bucket (stream_id, view_id, id) WHERE is_due = 1;

-- sequences: of its members, int64 little-endian; empty where they are all those from first to last.
-- is_closed: its members and next page are fixed for ever. dead: members that retention has let go, dead_bits which.
-- gone_us: set when another page has taken its place; until then it can still be read.
CREATE TABLE page (
    stream_id  INTEGER NOT NULL,
    view_id    INTEGER NOT NULL,
    bucket_id  INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    first      INTEGER NOT NULL,
    last       INTEGER NOT NULL,
    members    INTEGER NOT NULL,
    is_closed  INTEGER NOT NULL,
    next_page  INTEGER,
    dead       INTEGER NOT NULL,
    gone_us    INTEGER,
    generation INTEGER NOT NULL,
    sequences  BLOB    NOT NULL,
    dead_bits  BLOB,
    PRIMARY KEY (stream_id, view_id, bucket_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX page_first ON page (stream_id, view_id, bucket_id, first) WHERE gone_us IS NULL;
CREATE INDEX page_gone ON page (stream_id, view_id, gone_us) WHERE gone_us IS NOT NULL;

-- The buckets of a member, int32 little-endian each; none for members in the root alone.
CREATE TABLE placement (
    stream_id INTEGER NOT NULL,
    view_id   INTEGER NOT NULL,
    sequence  INTEGER NOT NULL,
    buckets   BLOB    NOT NULL,
    PRIMARY KEY (stream_id, view_id, sequence)
) STRICT, WITHOUT ROWID;

-- Members that are not old yet, for views with retention by age.
CREATE TABLE aging (
    stream_id INTEGER NOT NULL,
    view_id   INTEGER NOT NULL,
    at_us     INTEGER NOT NULL,
    sequence  INTEGER NOT NULL,
    PRIMARY KEY (stream_id, view_id, at_us, sequence)
) STRICT, WITHOUT ROWID;

-- Of each object (digest of its IRI) the newest versions that stay, int64 little-endian; of a materialised view where
-- its state stands: slot, time and sequence of it.
CREATE TABLE version (
    stream_id INTEGER NOT NULL,
    view_id   INTEGER NOT NULL,
    object    BLOB    NOT NULL,
    sequences BLOB    NOT NULL,
    PRIMARY KEY (stream_id, view_id, object)
) STRICT, WITHOUT ROWID;

-- Members that the event source lets go, by its view. is_loose: whether they are perhaps on no page any more.
CREATE TABLE expired_member (
    stream_id INTEGER NOT NULL,
    view_id   INTEGER NOT NULL,
    sequence  INTEGER NOT NULL,
    is_loose  INTEGER NOT NULL,
    PRIMARY KEY (stream_id, view_id, sequence)
) STRICT, WITHOUT ROWID;
CREATE INDEX expired_member_loose ON expired_member (stream_id, view_id, sequence) WHERE is_loose = 1;
