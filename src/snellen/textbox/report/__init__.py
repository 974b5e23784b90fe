"""Pages, figures, tables and claims over TextBox results."""
