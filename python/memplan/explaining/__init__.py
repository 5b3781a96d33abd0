"""What makes the peak of a plan, how far it is from the best possible, and what would lower it."""
