"""What lies over what among the tensors of a computation.

Instructions say of some results that they lie in operands. What a loop carries lies where the loop began with it. Other
outputs may be written over an input, by choice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

_OWN = ("intermediate", "output")  # what a computation may write over


class LyingOver:
    """Which outputs of ops lie over inputs. The ops and tensors are those of a graph dict, which still grows.

    `pairs` are outputs, and the inputs that they are to be written over. After `decide`, `together` has tensors that
    begin at one address, and `by_choice` has outputs, and inputs that these may be written over.
    """

    def __init__(self, tensors: Mapping[str, dict[str, Any]], ops: Sequence[dict[str, Any]]) -> None:
        self.tensors, self.ops = tensors, ops
        self.pairs: list[tuple[str, str]] = []
        self.together: list[tuple[str, str, int]] = []
        self.by_choice: set[tuple[str, str]] = set()

    def decide(self, kept: Collection[str]) -> None:
        """Outputs take the bytes of inputs that they are said to lie in, if nothing reads these later.

        What is kept, or not of this computation, is written over by nothing. Between the last op that reads an input
        and the one that writes there, the bytes are free.
        """
        last = {name: k for k, op in enumerate(self.ops) for name in op["inputs"]}
        made = {name: k for k, op in enumerate(self.ops) for name in op["outputs"]}
        pairs = [*dict.fromkeys(self.pairs)]
        times = Counter((made[output], given) for output, given in pairs)
        readers: dict[str, list[int]] = {}
        for k, op in enumerate(self.ops):
            for name in op["inputs"]:
                readers.setdefault(name, []).append(k)
            self.by_choice |= {(pair["output"], pair["input"]) for pair in op.get("inplace", ())}
            chosen = [pair for pair in op.pop("inplace", ()) if self.tensors[pair["input"]]["kind"] in _OWN]
            if chosen:
                op["inplace"] = chosen
        taken = {*kept}
        for output, given in pairs:
            k, tensor = made[output], self.tensors[given]
            end = last.get(given, made.get(given, -1))
            if tensor["kind"] not in _OWN or given in taken or end > k or times[k, given] > 1:
                continue
            if tensor["bytes"] != self.tensors[output]["bytes"]:
                continue
            taken.add(given)
            if end == k:
                self.ops[k].setdefault("overwrite", []).append({"output": output, "input": given, "offset": 0})
                self._leave_out(k, "output", output)
            else:
                used = [made[given], *readers.get(given, ())]
                self._lay_together(k, output, given, used)

    def _lay_together(self, k: int, output: str, given: str, used: Sequence[int]) -> None:
        """What op k makes lies where a tensor was that is dead by then; `used` are the ops that had it."""
        self.together.append((given, output, 0))
        for number in used:
            self._leave_out(number, "input", given)
        before = (*self.ops[k].get("after", ()), *(self.ops[number]["name"] for number in used))
        self.ops[k]["after"] = [*dict.fromkeys(before)]

    def _leave_out(self, k: int, which: str, name: str) -> None:
        """No output of op k is written over an input by choice, if that output or input has this name."""
        others = [pair for pair in self.ops[k].pop("inplace", ()) if pair[which] != name]
        if others:
            self.ops[k]["inplace"] = others


class Carrying:
    """What the body of a loop carries. Its ops are those from `begin` on; `made` says which of them makes a tensor."""

    def __init__(self, lying: LyingOver, begin: int) -> None:
        self._lying = lying
        self.made, self._last, self._over = dict[str, int](), dict[str, int](), dict[str, list[str]]()
        for k in range(begin, len(lying.ops)):
            self.made.update(dict.fromkeys(lying.ops[k]["outputs"], k))
            self._last.update(dict.fromkeys(lying.ops[k]["inputs"], k))
            for pair in lying.ops[k].get("inplace", ()):
                self._over.setdefault(pair["output"], []).append(pair["input"])
        for output, below in lying.pairs:
            if output in self.made:
                self._over.setdefault(output, []).append(below)

    def carry(self, given: str, result: str) -> None:
        """The result of a body lies where a carried tensor was, and so does all between them."""
        before = {result: result}  # for what is written over, what is written there
        waiting = [result]
        while waiting and given not in before:
            name = waiting.pop()
            for below in self._over.get(name, ()):
                if below not in before and name in self.made and self._last.get(below, -1) <= self.made[name]:
                    before[below] = name
                    waiting.append(below)
        if given not in before:
            self._lying.pairs.append((result, given))
            return
        name = given
        while name != result:
            self._lying.pairs.append((before[name], name))
            name = before[name]
