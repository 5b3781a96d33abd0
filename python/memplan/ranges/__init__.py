"""One plan for sizes in a range: a source at each of them, and what the core makes of these (memplan/ranges.hpp)."""
