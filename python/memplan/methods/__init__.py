"""Several methods, of which one runs at a time, in one arena."""
