"""torch.compile's memory beside memplan's."""
