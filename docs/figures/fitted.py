"""A training step of a small GPT-2, as it is and within 60 % of that, as fit.md has it."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import memplan

config = GPT2Config(vocab_size=1000, n_positions=64, n_embd=128, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=0)
tokens = torch.zeros(8, 64, dtype=torch.long)
step = {"kwargs": {"input_ids": tokens, "labels": tokens}, "train": True}
model = GPT2LMHeadModel(config)
plans = [memplan.plan(model, **step), memplan.fit(model, "60%", **step)]
figure = memplan.draw.plot_plans(plans, titles=["as it is", "within 60 %"])[0].figure
figure.set_size_inches(10, 5)
