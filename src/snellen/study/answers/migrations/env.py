"""What Alembic runs: every missing migration, on the connection and in the transaction that the caller opened."""

from __future__ import annotations

from alembic import context

from snellen.study.answers.tables import METADATA

if __name__ == "env_py":  # as Alembic calls it; whoever else imports it has no database
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=METADATA,
        version_table="snellen_version",
    )
    context.run_migrations()
