"""Logins of the experimenter that were ended before their time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Creates their table."""
    op.create_table(
        "logouts",
        sa.Column("login", sa.Text, nullable=False),
        sa.Column("until", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("login", name="logouts_pkey"),
    )


def downgrade() -> None:
    """Drops it."""
    op.drop_table("logouts")
