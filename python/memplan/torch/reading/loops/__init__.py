"""Along which rows operators of torch go while they run: `table.py` lists them, the other files hold the rules."""

from .calls import Call, Loop, Rows, Written, shows_again
from .table import RULES, loops_of, name_of, read_by, unread

__all__ = ["RULES", "Call", "Loop", "Rows", "Written", "loops_of", "name_of", "read_by", "shows_again", "unread"]
