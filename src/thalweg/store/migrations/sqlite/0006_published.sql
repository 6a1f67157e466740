-- Event streams that are made of what is stored already: of observations by their tracks, of layers by their features.
--
-- Registry of table kinds:
--   reference             published_layer published_feature_page   (a layer is one part: keyed by stream)
--   distributed by track  published_track published_page published_terms   key: track_id, in every primary key

-- reach_us: greatest phenomenon end that the track ever had, where deletions have made it less; NULL: end_us. Rows at
-- or before it are late.
ALTER TABLE track_state ADD COLUMN reach_us INTEGER;

-- Phenomenon ends of an entry's first and last row, and the binary digits of their distance (0 for one instant): all
-- entries that touch a span are found by one range per number of digits. NULL in entries of earlier formats.
ALTER TABLE change ADD COLUMN first_us INTEGER;
ALTER TABLE change ADD COLUMN last_us INTEGER;
ALTER TABLE change ADD COLUMN digits INTEGER;
CREATE INDEX change_span ON change (track_id, digits, first_us, last_us, sequence) WHERE digits IS NOT NULL;

-- start: number of the newest change when the track was published; changes up to it are no members.
-- pages: closed ones. members: on them. generation: of the track's state that they were last made from.
-- end_us ... row: how far the closed pages go: key of the last row, and the next change with its rows done.
CREATE TABLE published_track (
    stream_id  INTEGER NOT NULL,
    track_id   INTEGER NOT NULL,
    start      INTEGER NOT NULL,
    pages      INTEGER NOT NULL DEFAULT 0,
    members    INTEGER NOT NULL DEFAULT 0,
    generation INTEGER NOT NULL DEFAULT -1,
    end_us     INTEGER NOT NULL,
    begin_us   INTEGER NOT NULL,
    result_us  INTEGER NOT NULL,
    sequence   INTEGER NOT NULL,
    row        INTEGER NOT NULL,
    PRIMARY KEY (stream_id, track_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX published_track_of ON published_track (track_id);

-- A closed page: how far it goes (it begins where the one before ends), its members, the least and greatest of their
-- timestamps, and the digits (YYYYMMDDhhmmss) that these have in common. touched: changes of its rows since; where they
-- were many, rows holds them as they came.
CREATE TABLE published_page (
    stream_id   INTEGER NOT NULL,
    track_id    INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    end_us      INTEGER NOT NULL,
    begin_us    INTEGER NOT NULL,
    result_us   INTEGER NOT NULL,
    sequence    INTEGER NOT NULL,
    row         INTEGER NOT NULL,
    members     INTEGER NOT NULL,
    least_us    INTEGER NOT NULL,
    greatest_us INTEGER NOT NULL,
    bucket      TEXT    NOT NULL,
    terms       INTEGER NOT NULL,
    touched     INTEGER NOT NULL DEFAULT 0,
    rows        BLOB,
    PRIMARY KEY (stream_id, track_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX published_page_bucket ON published_page (stream_id, track_id, bucket, number);
CREATE INDEX published_page_key ON published_page (stream_id, track_id, end_us, begin_us, result_us);

-- Names and units that pages were closed with.
CREATE TABLE published_terms (
    stream_id INTEGER NOT NULL,
    track_id  INTEGER NOT NULL,
    version   INTEGER NOT NULL,
    document  TEXT    NOT NULL,
    PRIMARY KEY (stream_id, track_id, version)
) STRICT, WITHOUT ROWID;

-- A layer as a stream. start: its newest change then; last: greatest number of a feature then. pages, members: closed.
-- number, sequence: how far the closed pages go, among features as they were then and among changes.
CREATE TABLE published_layer (
    stream_id INTEGER PRIMARY KEY,
    layer_id  INTEGER NOT NULL,
    start     INTEGER NOT NULL,
    last      INTEGER NOT NULL,
    pages     INTEGER NOT NULL DEFAULT 0,
    members   INTEGER NOT NULL DEFAULT 0,
    number    INTEGER NOT NULL DEFAULT 0,
    sequence  INTEGER NOT NULL
) STRICT;
CREATE INDEX published_layer_of ON published_layer (layer_id);

-- A closed page. numbers: of its features as they were at publication (int64 little-endian, deflated);
-- first, last: its changes, those after the first one up to the last one; the rest as published_page.
CREATE TABLE published_feature_page (
    stream_id   INTEGER NOT NULL,
    number      INTEGER NOT NULL,
    numbers     BLOB    NOT NULL,
    first       INTEGER NOT NULL,
    last        INTEGER NOT NULL,
    members     INTEGER NOT NULL,
    least_us    INTEGER NOT NULL,
    greatest_us INTEGER NOT NULL,
    bucket      TEXT    NOT NULL,
    terms       TEXT    NOT NULL,
    PRIMARY KEY (stream_id, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX published_feature_page_bucket ON published_feature_page (stream_id, bucket, number);
