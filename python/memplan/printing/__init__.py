"""What all that is printed is made of: tables, bytes and names."""
