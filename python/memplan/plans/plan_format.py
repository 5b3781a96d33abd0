"""What the JSON file of a plan is called, for those who write it and those who read it."""

FORMAT = "memplan.plan"
VERSION = 1
PART_KEYS = ("begin", "end", "first", "last")
