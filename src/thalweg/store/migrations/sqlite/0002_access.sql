-- Who may see what, who holds which role, signed-in browsers, and who changed what.
--
-- All tables are reference tables (see 0001).

-- ---------------------------------------------------------------- visibility

-- public: 0: only for callers who hold a role for it, its workspace or the server.
ALTER TABLE procedure ADD COLUMN public INTEGER NOT NULL DEFAULT 1;
ALTER TABLE offering ADD COLUMN public INTEGER NOT NULL DEFAULT 1;

-- ---------------------------------------------------------------- roles, tokens, sessions

-- principal: a user's name, or that of an identity provider's user (oidc:...); empty: everybody.
-- kind, entity_id: a dataset; '' and 0: the workspace as a whole.
CREATE TABLE role_grant (
    principal    TEXT    NOT NULL,
    workspace_id INTEGER NOT NULL REFERENCES workspace (id),
    kind         TEXT    NOT NULL,
    entity_id    INTEGER NOT NULL,
    role         INTEGER NOT NULL,
    created_us   INTEGER NOT NULL,
    PRIMARY KEY (principal, workspace_id, kind, entity_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX role_grant_scope ON role_grant (workspace_id, kind, entity_id);

-- role: the most the token may do, NULL: as its user. workspace_id: where alone it counts, 0: everywhere.
ALTER TABLE token ADD COLUMN role INTEGER;
ALTER TABLE token ADD COLUMN workspace_id INTEGER NOT NULL DEFAULT 0;
-- When it was last used; apart from token, whose changes void what processes remember.
CREATE TABLE token_use (
    digest  TEXT    NOT NULL PRIMARY KEY,
    used_us INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- digest: SHA-256 of the cookie's text, hex; the text itself is nowhere.
CREATE TABLE session (
    digest     TEXT    NOT NULL PRIMARY KEY,
    account    TEXT    NOT NULL REFERENCES account (name),
    created_us INTEGER NOT NULL,
    expires_us INTEGER NOT NULL,
    seen_us    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX session_account ON session (account);

-- ---------------------------------------------------------------- audit

-- Only ever appended to, in the transaction of what it tells of; rows go by age alone.
-- number: 1, 2, 3 ... among entries of the same microsecond. detail: what it was and is; never a secret.
CREATE TABLE audit (
    at_us        INTEGER NOT NULL,
    number       INTEGER NOT NULL,
    actor        TEXT    NOT NULL,
    address      TEXT    NOT NULL,
    request      TEXT    NOT NULL,
    door         TEXT    NOT NULL,
    operation    TEXT    NOT NULL,
    action       TEXT    NOT NULL,
    object       TEXT    NOT NULL,
    workspace_id INTEGER NOT NULL,
    detail       TEXT    NOT NULL,
    PRIMARY KEY (at_us, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX audit_actor ON audit (actor, at_us);
