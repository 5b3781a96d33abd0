"""What two plans differ in."""
