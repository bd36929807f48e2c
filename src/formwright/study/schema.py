"""The tables of a study, and the rules that the database itself enforces.

A study is one SQLite file. Trials are numbered from 0 without gaps; a finished trial and the event
log can be read and added to, but not changed, whatever program writes: triggers see to it.
"""

FORMAT_VERSION = 2  # raised on any change that an older reader could not understand
APPLICATION = 0x46575354  # "FWST": how a study's file is told from any other SQLite file

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE trials (
    number    INTEGER PRIMARY KEY,
    decisions TEXT NOT NULL,              -- JSON object
    arch      TEXT NOT NULL,              -- id of the architecture
    notation  TEXT NOT NULL,
    parents   TEXT NOT NULL,              -- JSON list of numbers
    rung      INTEGER NOT NULL,
    steps     INTEGER,                    -- of training in all; NULL: the estimator decides
    train_seconds REAL,                   -- the same in seconds of training
    continues INTEGER,
    origin    TEXT NOT NULL,              -- how it came about, in a word
    note      TEXT NOT NULL,              -- the same for people to read
    details   TEXT NOT NULL,              -- JSON object
    original  INTEGER,                    -- earlier trial that tried the same
    created   REAL NOT NULL,              -- seconds since 1970, for people to read only
    state     TEXT NOT NULL CHECK (state IN ('waiting', 'running', 'done', 'failed')),
    results   TEXT NOT NULL DEFAULT '{}', -- JSON object: what was measured
    reason    TEXT NOT NULL DEFAULT '',
    seconds   REAL NOT NULL DEFAULT 0,
    finished  REAL,
    clock     REAL,                       -- seconds that the study had been worked on by then
    token     INTEGER NOT NULL DEFAULT 0, -- raised whenever the trial changes hands
    losses    INTEGER NOT NULL DEFAULT 0, -- workers that died or fell silent over it
    worker    TEXT,
    expires   REAL,                       -- monotonic seconds, valid within one boot
    boot      TEXT
);
CREATE INDEX trials_open ON trials (number) WHERE finished IS NULL;  -- few, however many ended

CREATE TABLE events (
    id     INTEGER PRIMARY KEY,
    time   REAL NOT NULL,
    number INTEGER,
    worker TEXT,
    what   TEXT NOT NULL,
    detail TEXT NOT NULL DEFAULT ''
);
"""

RULES = """
CREATE TRIGGER finished_is_final BEFORE UPDATE ON trials
WHEN OLD.state IN ('done', 'failed')
BEGIN SELECT RAISE(ABORT, 'a finished trial never changes'); END;

CREATE TRIGGER proposal_is_final BEFORE UPDATE OF
    number, decisions, arch, notation, parents, rung, steps, train_seconds, continues, origin, note,
    details, original, created ON trials
BEGIN SELECT RAISE(ABORT, 'what a trial tries never changes'); END;

CREATE TRIGGER trials_stay BEFORE DELETE ON trials
BEGIN SELECT RAISE(ABORT, 'a trial is never deleted'); END;

CREATE TRIGGER numbers_have_no_gaps BEFORE INSERT ON trials
WHEN NEW.number <> (SELECT coalesce(max(number) + 1, 0) FROM trials)
BEGIN SELECT RAISE(ABORT, 'trials are numbered one after the other'); END;

CREATE TRIGGER events_stay BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'an event is never deleted'); END;

CREATE TRIGGER events_are_final BEFORE UPDATE ON events
BEGIN SELECT RAISE(ABORT, 'an event never changes'); END;

CREATE TRIGGER meta_is_final BEFORE UPDATE ON meta
BEGIN SELECT RAISE(ABORT, 'what a study was begun with never changes'); END;

CREATE TRIGGER meta_stays BEFORE DELETE ON meta
BEGIN SELECT RAISE(ABORT, 'what a study was begun with never changes'); END;
"""
