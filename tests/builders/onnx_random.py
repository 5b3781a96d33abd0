"""Random models of ONNX."""

from __future__ import annotations

import numpy as np

from builders.onnx_models import const, model, node, value

WIDTH = 4  # of all tensors, which have any even number of rows


class Maker:
    """Writes nodes that read what is there, at random."""

    def __init__(self, seed):
        self.chance = np.random.default_rng(seed)
        self.nodes, self.weights, self.rows = [], [const("w", np.eye(WIDTH) * 0.5, np.float32)], {"x": 4, "z": 2}

    def add(self, op_type, inputs, rows, **attributes):
        outputs = [f"t{len(self.rows) + k}" for k in range(len(rows))]
        self.nodes.append(node(op_type, inputs, outputs, name=f"n{len(self.nodes)}", **attributes))
        self.rows.update(zip(outputs, rows, strict=True))

    def constant(self, values):
        self.weights.append(const(f"c{len(self.weights)}", values))
        return self.weights[-1].name

    def step(self):
        name = str(self.chance.choice(list(self.rows)[-8:]))
        rows = self.rows[name]
        alike = [other for other, n in self.rows.items() if n == rows]
        other = str(self.chance.choice(alike))
        match self.chance.integers(10):
            case 0:
                self.add(str(self.chance.choice(["Relu", "Neg", "Tanh", "Identity"])), [name], [rows])
            case 1 | 2:
                self.add(str(self.chance.choice(["Add", "Sub", "Max"])), [name, other], [rows])
            case 3:
                self.add("MatMul", [name, "w"], [rows])
            case 4 if rows % 4 == 0:
                self.add("Split", [name], [rows // 2] * 2, num_outputs=2)
            case 5 if rows <= 8:
                parts = [name, *(str(p) for p in self.chance.choice(list(self.rows), self.chance.integers(1, 3)))]
                self.add("Concat", parts, [sum(self.rows[part] for part in parts)], axis=0)
            case 6 if rows > 2:
                begin = int(self.chance.integers(rows // 2)) * 2
                ends = [self.constant([begin]), self.constant([begin + 2])]
                self.add("Slice", [name, *ends], [2])
            case 7:
                self.add("Reshape", [name, self.constant([rows, WIDTH])], [rows])
            case 8:
                self.add("Dropout", [name], [rows])
            case _:
                at = self.constant(self.chance.permutation(rows)[:, None])
                self.add("ScatterND", [name, at, other], [rows])

    def model(self):
        for _ in range(int(self.chance.integers(8, 30))):
            self.step()
        written = [output for made in self.nodes for output in made.output]
        read = {name for made in self.nodes for name in made.input}
        returned = {*written} - read | {str(self.chance.choice(written))}  # so that every value matters
        inputs = [value(name, [rows, WIDTH]) for name, rows in self.rows.items() if name in ("x", "z")]
        return model(self.nodes, inputs, [value(name, None) for name in sorted(returned)], self.weights)
