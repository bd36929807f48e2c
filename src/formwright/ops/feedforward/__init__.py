"""Maps that treat every token alike."""
