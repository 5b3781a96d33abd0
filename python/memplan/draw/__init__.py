"""Present: plans for people, as text and as pictures."""
