"""What callers ask for, checked: each option of planning by its name."""
