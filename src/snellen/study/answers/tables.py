"""The tables of the database: the study, its participants, and all events in the order in which they happened.

The truth is in `events`: rows are added and never changed, and only an erasure removes any. The row of a participant repeats
what can be derived from the events (state, time of the last answer), so that no page has to read all of them.

Times are UTC in ISO 8601 with milliseconds, which sort as text.

"""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    ForeignKeyConstraint,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

METADATA = MetaData()

LOGOUTS = Table(
    "logouts",
    METADATA,
    Column("login", Text, nullable=False),
    Column("until", Text, nullable=False),
    PrimaryKeyConstraint("login", name="logouts_pkey"),
)
"""Logins of the experimenter that were ended before their time, as hashes, until they would have ended by themselves."""

STUDY = Table(
    "study",
    METADATA,
    Column("id", Integer, nullable=False, autoincrement=False),
    Column("identity", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("state", Text, nullable=False),
    PrimaryKeyConstraint("id", name="study_pkey"),
)
"""One row, which whoever admits somebody locks."""

PARTICIPANTS = Table(
    "participants",
    METADATA,
    Column("participant", Text, nullable=False),
    Column("simulated", Boolean, nullable=False),
    Column("number", Integer, nullable=False),
    Column("group", Integer, nullable=False),
    Column("language", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("token", Text),
    Column("recruited", JSON, nullable=False),
    Column("started", Text, nullable=False),
    Column("finished", Text, nullable=False),
    Column("seen", Text, nullable=False),
    PrimaryKeyConstraint("participant", name="participants_pkey"),
    UniqueConstraint("simulated", "number", name="participants_number"),
    UniqueConstraint("token", name="participants_token"),
)

EVENTS = Table(
    "events",
    METADATA,
    Column("id", Integer, nullable=False, autoincrement=True),
    Column("participant", Text),
    Column("kind", Text, nullable=False),
    Column("page", Text),
    Column("content", JSON, nullable=False),
    Column("seconds", Float),
    Column("at", Text, nullable=False),
    PrimaryKeyConstraint("id", name="events_pkey"),
    ForeignKeyConstraint(["participant"], ["participants.participant"], name="events_participant"),
    # The idempotency key. Events that belong to no page have none, and NULL equals nothing.
    UniqueConstraint("participant", "page", name="events_once"),
)
"""Kinds: admitted, reply, finished, withdrawn; and of nobody: state (the study was paused, …), erased, and scrubbed (what
an erasure had left in the files was removed)."""
