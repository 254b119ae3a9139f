CREATE TABLE events (
            seq BIGINT PRIMARY KEY, kind TEXT COLLATE "C" NOT NULL, decision TEXT COLLATE "C", at DOUBLE PRECISION NOT NULL,
            body TEXT COLLATE "C" NOT NULL, digest TEXT COLLATE "C" NOT NULL);
CREATE TABLE decisions (
            id TEXT COLLATE "C" PRIMARY KEY, seq BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL, state TEXT COLLATE "C" NOT NULL,
            reward DOUBLE PRECISION, key TEXT COLLATE "C" UNIQUE, request TEXT COLLATE "C");
CREATE INDEX open_decisions ON decisions (at) WHERE state = 'open';
CREATE TABLE snapshots (seq BIGINT PRIMARY KEY, at DOUBLE PRECISION NOT NULL, data BYTEA NOT NULL);
CREATE TABLE tokens (
            name TEXT COLLATE "C" PRIMARY KEY, hash TEXT COLLATE "C" NOT NULL UNIQUE, roles TEXT COLLATE "C" NOT NULL, at DOUBLE PRECISION NOT NULL,
            revoked DOUBLE PRECISION);
CREATE TABLE meta (name TEXT COLLATE "C" PRIMARY KEY, value TEXT COLLATE "C" NOT NULL);
CREATE TABLE counters (name TEXT COLLATE "C" PRIMARY KEY, value BIGINT NOT NULL);
CREATE UNIQUE INDEX decisions_in_order ON decisions (seq);
ALTER TABLE decisions ADD COLUMN arm TEXT COLLATE "C";
UPDATE decisions SET arm = (SELECT e.body::jsonb ->> 'arm' FROM events e WHERE e.seq = decisions.seq);
CREATE TABLE sessions (hash TEXT COLLATE "C" PRIMARY KEY, token TEXT COLLATE "C" NOT NULL, until DOUBLE PRECISION NOT NULL);
DELETE FROM meta WHERE name = 'session_secret';
DELETE FROM snapshots;
CREATE INDEX edits ON events (seq) WHERE kind IN ('corrected', 'rolled_back');
INSERT INTO meta VALUES ('schema_version', '3');
INSERT INTO events VALUES (1, 'decision', '0-000000000001', 100.0, '{"arm":"a","candidates":["a","b"],"context":[0.5],"index":0,"mean":0.0,"propensity":0.95}', '984d68583c01f8d5e478d22658687074');
INSERT INTO events VALUES (2, 'decision', '0-000000000002', 101.0, '{"arm":"a","candidates":["a","b"],"context":[0.5],"index":0,"mean":0.0,"propensity":0.95}', '549c52335f00cee94f558aff38e6fc24');
INSERT INTO events VALUES (3, 'reward', '0-000000000001', 103.0, '{"arm":"a","context":[0.5],"delay":1.0,"reward":1.0}', '2b260182154a1f28113e8c943de4d761');
INSERT INTO decisions VALUES ('0-000000000001', 1, 100.0, 'rewarded', 1.0, NULL, NULL, 'a');
INSERT INTO decisions VALUES ('0-000000000002', 2, 101.0, 'open', NULL, NULL, NULL, 'a');
INSERT INTO tokens VALUES ('kept', '0000000000000000000000000000000000000000000000000000000000000000', 'read', 99.0, NULL);
