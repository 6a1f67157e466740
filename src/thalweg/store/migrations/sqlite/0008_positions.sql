-- Finding the n-th row of a track without reading those before it.
--
-- Kinds of tables: distributed by track, as all of 0001: chunk_version, key track_id.

-- version: raised by every transaction that writes or removes chunks of the track, so that what a process remembers of
-- their sizes is known to hold. Tracks whose chunks are older than this table have none, which counts as 0.
CREATE TABLE chunk_version (
    track_id INTEGER PRIMARY KEY,
    version  INTEGER NOT NULL
) STRICT;

-- The sizes of a track's chunks, without a visit to each of them.
CREATE INDEX chunk_sizes ON chunk (track_id, first_us, last_us, rows);
