"""Random models of TFLite with states, and what their operators do, as texts: `traced`, apart from the importer."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import tflite

from builders.tflite_files import Net, model

_WIDE = 8


def drawn(seed: int) -> bytes:
    """A model that reads, assigns and draws, by itself and in branches of IF; CALL_ONCE sets its states."""
    rng = random.Random(seed)
    states = rng.randint(1, 3)
    first, net = Net("init"), Net()
    for k in range(states):
        first.assign(first.handle(f"s{k}"), first.floats(f"z{k}", 1, _WIDE))
    nets = [net, first]
    net.once(1)
    shape = net.tensor("shape", 2, dtype="INT32", data=np.array([1, _WIDE], np.int32))
    carried = net.tensor("carried", 1, _WIDE, variable=True)
    made = [net.input("x", 1, _WIDE)]
    for k in range(rng.randint(5, 14)):
        kind, x, state = rng.randrange(8), rng.choice(made), f"s{rng.randrange(states)}"
        if kind == 0:
            made.append(net.read(net.handle(state), f"read{k}", 1, _WIDE))
        elif kind == 1:
            net.assign(net.handle(state), x)
        elif kind == 2:
            made.append(net.uniform(shape, f"drawn{k}", 1, _WIDE))
        elif kind == 3 and len(nets) < 6:
            condition = net.op("LESS", [x, rng.choice(made)], f"cond{k}", 1, 1, dtype="BOOL", table="LessOptions")
            options = {"ThenSubgraphIndex": len(nets), "ElseSubgraphIndex": len(nets) + 1}
            made.append(net.op("IF", [condition, x], f"if{k}", 1, _WIDE, options=options, table="IfOptions"))
            nets += [_branch(f"{name}{k}", rng, states) for name in ("then", "else")]
        elif kind == 4:
            made.append(net.op("Remember", [x], f"custom{k}", 1, _WIDE, custom=True))
        elif kind == 5:
            made.append(net.op("SVDF", [x, carried], f"svdf{k}", 1, _WIDE))
        else:
            made.append(net.add(x, net.dense(rng.choice(made), f"wide{k}", _WIDE, 4 * _WIDE), f"sum{k}", 1, _WIDE))
    net.outputs = rng.sample(made[1:], min(3, len(made) - 1)) or made
    return model(*nets)


def _branch(name: str, rng: random.Random, states: int) -> Net:
    net = Net(name)
    x = net.input("x", 1, _WIDE)
    for k in range(rng.randint(1, 3)):
        handle = net.handle(f"s{rng.randrange(states)}")
        if rng.random() < 0.5:
            net.assign(handle, x)
        x = net.add(x, net.read(handle, f"read{k}", 1, _WIDE), f"sum{k}", 1, _WIDE)
    net.outputs = [x]
    return net


def traced(data: bytes, calls: int = 2) -> list[list[int]]:
    """The outputs, call after call, as numbers that tell apart how they were made."""
    return _Machine(tflite.Model.GetRootAsModel(data, 0)).calls(calls)


class _Machine:
    """Runs operators in the order of the file; a value is a number made of all that led to it."""

    def __init__(self, found: Any) -> None:
        self._model, self._states, self._world, self._drawn, self._once = found, dict[Any, int](), 0, 0, set[int]()

    def calls(self, count: int) -> list[list[int]]:
        return [self._run(0, [hash(("input", k))]) for k in range(count)]

    def _run(self, position: int, inputs: list[int]) -> list[int]:
        graph = self._model.Subgraphs(position)
        values = dict(zip((graph.Inputs(k) for k in range(graph.InputsLength())), inputs, strict=True))
        for k in range(graph.OperatorsLength()):
            operator = graph.Operators(k)
            given = [operator.Inputs(i) for i in range(operator.InputsLength())]
            read = [values.get(t, self._of(graph, t)) for t in given if t >= 0]
            made = self._result(position, operator, given, read)
            if operator.OutputsLength():
                values[operator.Outputs(0)] = made
        return [values[graph.Outputs(k)] for k in range(graph.OutputsLength())]

    def _of(self, graph: Any, t: int) -> int:
        """A constant or a variable tensor."""
        name = hash(graph.Tensors(t).Name())
        return self._states.get(("tensor", t), name) if graph.Tensors(t).IsVariable() else name

    def _result(self, position: int, operator: Any, given: list[int], read: list[int]) -> int:
        code = self._model.OperatorCodes(operator.OpcodeIndex())
        kind = tflite.BUILTIN_OPCODE2NAME[code.BuiltinCode()]
        options = operator.BuiltinOptions()
        if kind == "VAR_HANDLE":
            return hash(_as(tflite.VarHandleOptions, options).SharedName())
        if kind == "READ_VARIABLE":
            return self._states[read[0]]
        if kind == "ASSIGN_VARIABLE":
            self._states[read[0]] = read[1]
        if kind == "CALL_ONCE" and position not in self._once:
            self._once.add(position)
            self._run(_as(tflite.CallOnceOptions, options).InitSubgraphIndex(), [])
        if kind == "IF":
            branches = _as(tflite.IfOptions, options)
            return self._run((branches.ThenSubgraphIndex, branches.ElseSubgraphIndex)[read[0] % 2](), read[1:])[0]
        if kind == "CUSTOM":  # it may look at all states, and change them
            self._world = hash((self._world, self._drawn, *read, *sorted(self._states.items(), key=str)))
            self._states = {state: hash((self._world, value)) for state, value in self._states.items()}
            return self._world
        if kind == "SVDF":
            self._states["tensor", given[1]] = hash(("state", *read))
        if kind == "RANDOM_UNIFORM":
            self._drawn += 1
            return hash((kind, self._drawn))
        return hash((kind, *read))


def _as(table: Any, found: Any) -> Any:
    options = table()
    options.Init(found.Bytes, found.Pos)
    return options
