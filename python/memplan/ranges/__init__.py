"""One plan for sizes in a range: offsets that hold for all of them, and what each size needs alone.

The source is captured at some sizes. All of these graphs have the same ops and tensors; the tensors have other bytes.
Only what may share bytes at all sizes does. So all have the same buffers with the same lifetimes, and one plan says of
any two that meet which one is below the other. That has two uses:

    fixed offsets   those of the largest sizes; they hold wherever no buffer is larger
    pushed down     at one size, each buffer begins where the highest of those below it ends; if that leaves a gap,
                    the plan of that size says what is below what, there and wherever that is lower

Both are verified at each size that is looked at, on its own problem and by a replay of its own graph.
"""
