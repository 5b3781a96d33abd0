"""What is known of a plan: where its buffers lie, which bytes are in use when, what makes its peak, what changed."""
