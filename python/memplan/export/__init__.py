"""Export: plans as files for people and programs."""
