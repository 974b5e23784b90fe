"""The study, its participants, and events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates the three tables."""
    op.create_table(
        "study",
        sa.Column("id", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("identity", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="study_pkey"),
    )
    op.create_table(
        "participants",
        sa.Column("participant", sa.Text, nullable=False),
        sa.Column("simulated", sa.Boolean, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("group", sa.Integer, nullable=False),
        sa.Column("language", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("token", sa.Text),
        sa.Column("recruited", sa.JSON, nullable=False),
        sa.Column("started", sa.Text, nullable=False),
        sa.Column("finished", sa.Text, nullable=False),
        sa.Column("seen", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("participant", name="participants_pkey"),
        sa.UniqueConstraint("simulated", "number", name="participants_number"),
        sa.UniqueConstraint("token", name="participants_token"),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.Integer, nullable=False, autoincrement=True),
        sa.Column("participant", sa.Text),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("page", sa.Text),
        sa.Column("content", sa.JSON, nullable=False),
        sa.Column("seconds", sa.Float),
        sa.Column("at", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="events_pkey"),
        sa.ForeignKeyConstraint(["participant"], ["participants.participant"], name="events_participant"),
        sa.UniqueConstraint("participant", "page", name="events_once"),
    )


def downgrade() -> None:
    """Drops them, with all rows."""
    for table in ("events", "participants", "study"):
        op.drop_table(table)
