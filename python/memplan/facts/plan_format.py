"""What the JSON file of a plan is called, for those who write it and those who read it."""

FORMAT = "memplan.plan"
VERSION = 2  # of what is written; with it came parts, conflicts, pools, shares
VERSION_IN_POOLS = 3  # of plans in several pools: which buffer lies in which
READABLE = (1, 2, 3)
PART_KEYS = ("begin", "end", "first", "last")
