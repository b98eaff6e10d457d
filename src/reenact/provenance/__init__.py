"""Facts that convince strangers: replay blocks of published reports."""
