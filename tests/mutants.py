"""Faults seeded into the storage stage, the searches and the bounds, one at a time: is each of them found?

    python tests/mutants.py [--jobs 2] [--graphs 20000] [--sample 12 --seed 1] [--core build/libmemplan_core.a]

Takes a core that is built, or builds it, then for each fault compiles the one changed file. In the storage stage
tests/cpp/random_run is to find it on graphs, where every plan is verified on its problem and replayed on its graph. In
the searches and the bounds it is test_search, where all that is kept is compared to a plain version, test_pairs, where
all placements are tried, or random_search, where what is claimed is held against the optimum. What finds a fault has to
pass without it. A fault that survives is a hole in the checks; the script then exits with 1. The table says what each
was found by, and after how many graphs or problems. Nothing in the working tree is changed.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "cpp" / "src"
TESTS = ROOT / "tests" / "cpp"


@dataclass(frozen=True)
class Fault:
    """`old`, which occurs once in the file, becomes `new`."""

    what: str
    file: str
    old: str
    new: str


@dataclass(frozen=True)
class Check:
    """A test of tests/cpp, and how it is called."""

    test: str
    arguments: tuple[object, ...] = ()


FAULTS = (
    Fault(
        "a bound counts what a slice shows twice",
        "storage/contents.cpp",
        "if (shared.how != Sharing::inplace) kept",
        "if (shared.how == Sharing::concat) kept",
    ),
    Fault(
        "a bound counts the parts of a concatenation twice",
        "storage/contents.cpp",
        "if (shared.how != Sharing::inplace) kept",
        "if (shared.how == Sharing::slice) kept",
    ),
    Fault(
        "a bound counts what is written over inputs beside them",
        "storage/sharing_bound.cpp",
        "need -= over[k];",
        "need -= 0;",
    ),
    Fault(
        "a bound counts what may lie in donated inputs",
        "storage/sharing_bound.cpp",
        "- whereabouts.donated_bytes(), 0)",
        "- 0, 0)",
    ),
    Fault(
        "a bound counts slices of inputs that are not placed",
        "storage/contents.cpp",
        "return placed_alone_[at(storage)] && (outside_[at(storage)] & ~kDonated) == 0;",
        "return placed_alone_[at(storage)];",
    ),
    Fault(
        "a bound looks at fewer ways to share than there are",
        "storage/sharing.cpp",
        "if (begin < 0 || begin + bytes(moved.root)",
        "if (begin != 0 || begin + bytes(moved.root)",
    ),
    Fault(
        "an input that was not donated is taken in place",
        "storage/sharing.cpp",
        "&& !donated_[at(root)]) return false;",
        "&& false) return false;",
    ),
    Fault(
        "in place over a graph output, or one that is read later",
        "storage/sharing.cpp",
        "return (same_view || may_be_over(k, view.output, m, begin)) && done_after_reading(m, k);",
        "return same_view || may_be_over(k, view.output, m, begin);",
    ),
    Fault(
        "in place while another view of the same bytes is read",
        "storage/sharing.cpp",
        "return (same_view || may_be_over(k, view.output, m, begin)) && done_after_reading(m, k);",
        "return done_after_reading(m, k);",
    ),
    Fault(
        "a graph output counts as used up after its last reader",
        "storage/sharing.cpp",
        "    if (uses.endless) return false;\n    if (order_.total()) return uses.last < k;",
        "    if (order_.total()) return uses.last < k;",
    ),
    Fault(
        "a later reader is overlooked by one step",
        "storage/sharing.cpp",
        "if (order_.total()) return uses.last <= k;",
        "if (order_.total()) return uses.last <= k + 1;",
    ),
    Fault(
        "another output of the same op is overlooked",
        "storage/sharing.cpp",
        "if (uses.endless || std::find(outputs.begin(), outputs.end(), t) != outputs.end()) return false;",
        "if (uses.endless) return false;",
    ),
    Fault(
        "on streams one user that is done is enough",
        "storage/sharing.cpp",
        "return std::all_of(uses.ops.begin(), uses.ops.end(), [&](Index op) { return order_.before(op, k); });",
        "return std::any_of(uses.ops.begin(), uses.ops.end(), [&](Index op) { return order_.before(op, k); });",
    ),
    Fault(
        "on streams the order of the list is believed",
        "storage/sharing.cpp",
        "return op == k || order_.before(op, k); });",
        "return op <= k; });",
    ),
    Fault(
        "members are forgotten one step early",
        "storage/sharing.cpp",
        "return !uses_of(m).endless && uses_of(m).last < k; });",
        "return !uses_of(m).endless && uses_of(m).last <= k; });",
    ),
    Fault(
        "an output larger than its input",
        "storage/sharing.cpp",
        "bytes(view.output) > bytes(view.input) - view.offset)\n      return false;",
        "false)\n      return false;",
    ),
    Fault(
        "a slice shares bytes that are overwritten later",
        "storage/sharing.cpp",
        "keep_values(k, view.input, view.output, begin);",
        "!destroys(view.output, view.input, -begin, k);",
    ),
    Fault(
        "a slice that is overwritten shares bytes",
        "storage/sharing.cpp",
        "keep_values(k, view.input, view.output, begin);",
        "!destroys(view.input, view.output, begin, k);",
    ),
    Fault(
        "a part of a concatenation is overwritten later",
        "storage/sharing.cpp",
        "if (!keep_values(k, whole, any, move.begin)) return false;",
        "if (destroys(whole, any, move.begin, k)) return false;",
    ),
    Fault(
        "a concatenation that is overwritten holds its parts",
        "storage/sharing.cpp",
        "if (!keep_values(k, whole, any, move.begin)) return false;",
        "if (destroys(any, whole, -move.begin, k)) return false;",
    ),
    Fault(
        "a storage moves into a concatenation with members that it does not bring there",
        "storage/sharing.cpp",
        "return covered >= begin + bytes(m) || done_before(m, k);",
        "return true;",
    ),
    Fault(
        "two storages move to the same bytes of a concatenation",
        "storage/sharing.cpp",
        "if (apart && may_move",
        "if (may_move",
    ),
    Fault(
        "a storage moves beyond the end of a concatenation",
        "storage/sharing.cpp",
        "move.begin < 0 || move.end > bytes(whole) || ",
        "",
    ),
    Fault(
        "a part that its storage brings elsewhere counts as there",
        "storage/sharing.cpp",
        "} else if (known->begin == begin) {",
        "} else {",
    ),
    Fault(
        "in place is not remembered as an overwrite",
        "storage/sharing.cpp",
        "storages_.join_over(view.input,",
        "storages_.join(view.input,",
    ),
    Fault(
        "whatever is safe is shared, at any load",
        "storage/sharing.cpp",
        "if (load_.max(0, load_.size()) <= before) return true;",
        "return true;",
    ),
    Fault(
        "a view's offset is lost",
        "storage/forming.cpp",
        "for (const View& view : op.aliases) join(view.input, view.output, view.offset);",
        "for (const View& view : op.aliases) join(view.input, view.output, 0);",
    ),
    Fault(
        "distances go wrong when a chain is shortened",
        "storage/groups.cpp",
        "const Bytes rest = distance - distance_[at(t)];",
        "const Bytes rest = distance;",
    ),
    Fault(
        "graph outputs die with their last reader",
        "storage/liveness.cpp",
        "for (Index t : graph.outputs()) touch(t, end - 1);",
        "",
    ),
    Fault(
        "weights die with their last reader",
        "storage/liveness.cpp",
        "if (kind == TensorKind::weight) touch(t, end - 1);",
        "",
    ),
    Fault(
        "bytes die with the first of their members",
        "storage/liveness.cpp",
        "spans[kept - 1].last = std::max(spans[kept - 1].last, span.last);",
        "",
    ),
    Fault(
        "bytes are born with the last of their members",
        "storage/liveness.cpp",
        "return a.first < b.first; });\n  std::size_t kept",
        "return a.first > b.first; });\n  std::size_t kept",
    ),
    Fault(
        "a member counts for bytes beyond its end",
        "storage/liveness.cpp",
        "covering.erase(edges[i].member);",
        "",
    ),
    Fault(
        "a workspace lives in the step after its op",
        "storage/buffers.cpp",
        "columns.add(op.workspace, {k, k + 1, {}}",
        "columns.add(op.workspace, {k + 1, k + 2, {}}",
    ),
    Fault(
        "on streams readers do not count",
        "storage/buffers.cpp",
        "for (Index op : one.ops)",
        "for (Index op : one.writers)",
    ),
    Fault(
        "ops of different streams count as ordered",
        "graph/happens_before.cpp",
        "last_on.try_emplace(graph.op(k).stream, k);",
        "last_on.try_emplace(0, k);",
    ),
    Fault(
        "several streams count as one",
        "graph/happens_before.cpp",
        "total_(on_one_stream(graph)) {",
        "total_(true) {",
    ),
    Fault(
        "reads of inputs are not seen by the walk that finds reuse",
        "plan/reuse.cpp",
        "for (Index t : op.inputs) use(k, t, false);",
        "",
    ),
    Fault(
        "what rests on a lower neighbour is ruled out with the floor",
        "search/valley_search.cpp",
        "  if (valley.begin > begin_ && valleys_.joined(valley.begin))\n"
        "    height = std::min(height, floors_.floor(valley.begin - 1));\n",
        "",
    ),
    Fault(
        "what has its base above the floor is ruled out with it",
        "search/valley_search.cpp",
        "      height = std::min(height, floors_.base(x));\n",
        "",
    ),
    Fault(
        "what rests on one that ends before is ruled out with the floor",
        "search/valley_search.cpp",
        "if (sections_.last[x] > from && sections_.last[x] <= t) rest_on(x);",
        "continue;",
    ),
    Fault(
        "what rests on one that begins after is ruled out with the floor",
        "search/valley_search.cpp",
        "  for (Index x = sections_.begins[t + 1]; x < sections_.begins[to]; ++x) rest_on(x);\n",
        "",
    ),
    Fault(
        "a floor may not rise by all of its slack",
        "search/valley_search.cpp",
        "height - floor <= valley.slack",
        "height - floor < valley.slack",
    ),
    Fault(
        "a part that is searched counts as outside",
        "search/valley_search.cpp",
        "  outside_ -= parts_.back().state;\n",
        "",
    ),
    Fault(
        "what is placed on is not aligned", "search/floors.cpp", "set_base(y, aligned(top, y));", "set_base(y, top);"
    ),
    Fault(
        "what is in the way reaches less far down",
        "search/obstacles.cpp",
        "ranges_.push_back({begin.offset - size,",
        "ranges_.push_back({begin.offset - size + 1,",
    ),
    Fault(
        "what gaps forbid is not mirrored",
        "search/obstacles.cpp",
        "{-gaps[k + 1].lowest, -gaps[k].highest, b}",
        "{gaps[k].highest, gaps[k + 1].lowest, b}",
    ),
    Fault(
        "what is ejected stays where it is",
        "search/ejection_search.cpp",
        "placed_.remove(pool_[k]);",
        "placed_.offset(pool_[k]);",
    ),
    Fault(
        "sets that are not nested make lives",
        "problem/order_rows.cpp",
        "!is_subset(sets[nest[k - 1]], sets[here])",
        "false",
    ),
    Fault(
        "pairs that are turned apart ask on",
        "problem/order_rows.cpp",
        "rest = of_a[w] & ~of_b[w]",
        "rest = of_a[w] & of_b[w]",
    ),
    Fault(
        "bands of shapes that live together",
        "search/bands.cpp",
        "problem.first(b) < problem.last(a) && problem.parts(a).empty() &&\n         problem.parts(b).empty();",
        "problem.first(b) < problem.last(a);",
    ),
    Fault("each band needs its padding", "search/band_member.cpp", "return bound - most_padding;", "return bound;"),
    Fault(
        "a band lies where the one below ends",
        "search/band_member.cpp",
        "bases[k] = align_up(top, parts_[k].alignment);",
        "bases[k] = top;",
    ),
    Fault(
        "bands of several alignments prove",
        "search/band_member.cpp",
        "(are == Bands::joined && all_aligned_alike(problem))",
        "are == Bands::joined",
    ),
    Fault("a floor rises at no cost", "search/floors.cpp", "  slack_[section] -= rise;\n", ""),
    Fault("slack is not given back", "search/floors.cpp", "    slack_[was.section] = was.slack;\n", ""),
    Fault("a node's bound is not given back", "search/floors.cpp", "    node_bound_[was.node] = was.bound;\n", ""),
    Fault(
        "the highest item needs its padding",
        "search/sections.cpp",
        "load[s] -= most[s];",
        "load[s] -= 0;",
    ),
    Fault(
        "twins are of any size",
        "search/sections.cpp",
        "row.look() == rows[at(item) - 1].look();",
        "row.first == first.back() && row.last == last.back();",
    ),
    Fault(
        "what is refuted is refuted for every capacity",
        "search/refutations.cpp",
        "*bucket = {state, highest};",
        "*bucket = {state, kMaxBytes + 0 * highest};",
    ),
    Fault(
        "a run beside a lower one on its left counts as a valley",
        "search/valleys.cpp",
        "  if (begin > 0 && joined(begin) && floors_.floor(begin - 1) < floor) return false;\n",
        "",
    ),
    Fault(
        "a proof raises the bound by a step too much",
        "search/squeeze.cpp",
        "(capacity / step_ + 1) * step_",
        "(capacity / step_ + 2) * step_",
    ),
    Fault(
        "a conflict forbids a byte less",
        "search/pairs.cpp",
        "forbidden.emplace_back(-problem.size(b), problem.size(a));",
        "forbidden.emplace_back(-problem.size(b), problem.size(a) - 1);",
    ),
    Fault(
        "parts that never meet are kept apart",
        "search/pairs.cpp",
        "if (p.first < q.last && q.first < p.last) forbidden",
        "if (p.first <= q.last && q.first <= p.last) forbidden",
    ),
    Fault(
        "what lies on another may be larger",
        "search/pairs.cpp",
        "if (size(j) > size(i) || alignment(i) % alignment(j) != 0) return false;",
        "if (alignment(i) % alignment(j) != 0) return false;",
    ),
    Fault(
        "what lies on another may be aligned otherwise",
        "search/pairs.cpp",
        "if (size(j) > size(i) || alignment(i) % alignment(j) != 0) return false;",
        "if (size(j) > size(i)) return false;",
    ),
    Fault(
        "what lies on another may conflict with it",
        "search/pairs.cpp",
        "    if (!within({{0, 0}}, gaps_[pair(i, j)])) return false;\n",
        "",
    ),
    Fault(
        "a neighbour blocks an offset less",
        "search/pairs.cpp",
        "free -= (size(j) + size(k) - 2) / alignment(j) + 1;",
        "free -= (size(j) + size(k) - 2) / alignment(j);",
    ),
    Fault(
        "twins have any neighbours",
        "search/pairs.cpp",
        "    if (k != i && k != j && gaps_[pair(i, k)] != gaps_[pair(j, k)]) return false;\n  return true;",
        "    if (k == kNone) return false;\n  return true;",
    ),
    Fault(
        "the same side of a pair is tried twice",
        "search/pair_search.cpp",
        "for (const bool above : {choice.above_first, !choice.above_first})",
        "for (const bool above : {choice.above_first, choice.above_first})",
    ),
    Fault(
        "the highest of a clique needs its padding",
        "search/pair_search.cpp",
        "if (lowest(table, member) + sum - most <= end) continue;",
        "if (lowest(table, member) + sum <= end) continue;",
    ),
    Fault(
        "ranges begin where their buffers may",
        "search/pair_search.cpp",
        "std::gcd(pairs_.alignment(i), member.begin)",
        "pairs_.alignment(i)",
    ),
    Fault(
        "what touches from above lies above",
        "search/pair_search.cpp",
        "> clique[j].begin - clique[i].end)",
        ">= clique[j].begin - clique[i].end)",
    ),
    Fault(
        "a stack ends below its highest end",
        "search/pair_search.cpp",
        "if (end > highest(table, m)) continue;",
        "if (end >= highest(table, m)) continue;",
    ),
    Fault(
        "a stack is as high as the last one that was tried",
        "search/pair_search.cpp",
        "least = std::min(least, end);",
        "least = end;",
    ),
    Fault(
        "a plan ends below its highest offsets",
        "search/pair_search.cpp",
        "if (offsets_[at(j)] > -table[cell(j, n)]) return Result::dead;",
        "if (offsets_[at(j)] >= -table[cell(j, n)]) return Result::dead;",
    ),
    Fault(
        "shapes are turned upside down",
        "search/pair_search.cpp",
        "if (plain_steps_ && !problem.has_shapes() && record == nullptr)",
        "if (plain_steps_ && record == nullptr)",
    ),
    Fault(
        "what is aligned is turned upside down",
        "search/pair_search.cpp",
        "if (plain_steps_ && !problem.has_shapes() && record == nullptr)",
        "if (!problem.has_shapes() && record == nullptr)",
    ),
    Fault(
        "pairs are undecided where a gap is left",
        "search/pair_search.cpp",
        "while (first != gaps.end() && first->highest < lowest) ++first;",
        "while (first != gaps.end() && first->highest <= lowest) ++first;",
    ),
    Fault(
        "a proof for pairs raises the bound by a step too much",
        "search/pair_squeeze.cpp",
        "std::max(part.lower_bound, target + step_)",
        "std::max(part.lower_bound, target + 2 * step_)",
    ),
    Fault(
        "peaks are multiples of sizes alone",
        "search/pair_squeeze.cpp",
        "    if (problem.alignment(i) > 1) divisor = std::gcd(divisor, problem.alignment(i));\n",
        "",
    ),
    Fault(
        "peaks are multiples of whole sizes",
        "search/pair_squeeze.cpp",
        "    for (const Part& part : problem.parts(i)) divisor = std::gcd(divisor, std::gcd(part.begin, part.end));\n",
        "",
    ),
    Fault(
        "what ends when another begins is apart from it",
        "problem/clique.cpp",
        "return other.last <= use.first; });",
        "return other.last < use.first; });",
    ),
    Fault(
        "a part uses all bytes of its buffer",
        "problem/clique.cpp",
        "if (part.begin <= range.begin && range.end <= part.end) uses",
        "if (part.begin <= range.end) uses",
    ),
    Fault(
        "the highest of the heaviest clique needs its padding",
        "problem/clique.cpp",
        "  found.bytes -= most;\n",
        "  found.bytes -= 0 * most;\n",
    ),
    Fault(
        "what lies on a buffer begins where that one may",
        "problem/clique.cpp",
        "[&](Index other) { divisor = std::gcd(divisor, problem_.alignment(ranges_[at(other)].buffer)); });",
        "[&](Index other) { divisor = std::max(divisor, problem_.alignment(ranges_[at(other)].buffer)); });",
    ),
    Fault(
        "a colour weighs nothing",
        "problem/clique_search.cpp",
        "    if (least > limit) return;\n    limit -= least;\n",
        "    if (least > limit) return;\n",
    ),
    Fault(
        "a branch forgets those before it",
        "problem/clique_search.cpp",
        "    set(level.candidates, v);\n",
        "    clear(level.candidates, v);\n",
    ),
    Fault(
        "what came to a vertex is not sent on",
        "problem/antichain.cpp",
        "if (bytes == 0 || level_[at(other)] != level) continue;",
        "if (bytes >= 0 || level_[at(other)] != level) continue;",
    ),
    Fault(
        "an op that overwrites does not wait for those that used the bytes before",
        "graph/happens_before.cpp",
        "    waits[k].insert(waits[k].end(), overwritten[k].begin(), overwritten[k].end());\n",
        "",
    ),
    Fault(
        "an op is ready before all that it waits for has run",
        "order/lists.cpp",
        "      if (--waiting[at(next)] > 0) continue;\n      age[at(next)] = now;\n      put(next);\n    }\n"
        "    for (const Index i : model.uses[at(op)]) {  // the last",
        "      if (--waiting[at(next)] > 1) continue;\n      age[at(next)] = now;\n      put(next);\n    }\n"
        "    for (const Index i : model.uses[at(op)]) {  // the last",
    ),
    Fault(
        "contents are used by those too that show other bytes",
        "order/contents_model.cpp",
        "showing.begin > ends[e] || showing.end < ends[e + 1]",
        "showing.begin > ends[e] && showing.end < ends[e + 1]",
    ),
    Fault(
        "copies of what lies outside count together",
        "order/contents_model.cpp",
        "if (!is_inside && !tensors.empty()) {",
        "if (false) {",
    ),
    Fault(
        "what may lie outside of the arena counts",
        "order/contents_model.cpp",
        "if (!whereabouts.surely_inside(s)) continue;",
        "",
    ),
    Fault(
        "what ops may write over counts beside what they make",
        "order/contents_model.cpp",
        "over_at_most[k] = std::min({out, in, making[k]});",
        "over_at_most[k] = 0 * std::min({out, in, making[k]});",
    ),
    Fault(
        "a set of ops may lack what they wait for",
        "order/cuts.cpp",
        "waits_.push_back({k, before, add(node_of_[at(k)], node_of_[at(before)], kInfinite)});",
        "(void)before;",
    ),
    Fault(
        "a content is alive before it is made",
        "order/cuts.cpp",
        "const bool is_made = item.maker == kNone ||",
        "const bool is_made = item.maker == kNone || side_[at(item.maker)] == Side::open ||",
    ),
    Fault(
        "a rule holds without the ops that it needs",
        "order/traces.cpp",
        "needless = counts ? gives[o] == 0 : gives[o] >= 0;",
        "needless = true;",
    ),
    Fault(
        "a rule holds whatever has run",
        "order/traces.cpp",
        "if ((rule.before & ~trace) == 0 && (rule.after & trace) == 0) bytes",
        "if ((rule.before & ~trace) == 0) bytes",
    ),
    Fault(
        "the dearest way is taken",
        "order/traces.cpp",
        "std::priority_queue<Entry, std::vector<Entry>, std::greater<>>",
        "std::priority_queue<Entry, std::vector<Entry>, std::less<>>",
    ),
    Fault(
        "no more ops are named",
        "order/traces.cpp",
        "while (search() && bound_ < enough_ && refine()) {",
        "while (search() && bound_ < 0 && refine()) {",
    ),
    Fault(
        "the last op is the one that needs most",
        "order/bound.cpp",
        "least = std::min(least, need);",
        "least = std::max(least == kMaxBytes ? 0 : least, need);",
    ),
    Fault(
        "the search ends at the first way",
        "order/ideals.cpp",
        "if (known != kNone && states_[at(known)].needed <= state.needed) return;",
        "if (known != kNone) return;",
    ),
    Fault(
        "a step that frees is taken whatever it needs",
        "order/ideals.cpp",
        "if (growth <= 0 && need <= state.needed) {",
        "if (growth <= 0) {",
    ),
    Fault(
        "contents of other blocks die too",
        "order/ideals.cpp",
        "if (inside < state.uses_left(i)) return std::nullopt;",
        "",
    ),
    Fault(
        "the state of a window is that of the beginning",
        "order/ideals.cpp",
        "alive_before_(state.alive()),",
        "alive_before_(0 * state.alive()),",
    ),
)


def checks_of(graphs: int) -> dict[str, tuple[Check, ...]]:
    """What is to find the faults of a folder of the core: the cheapest first. The last row is for all others."""
    beyond_rectangles = (
        Check("random_search", (10_000, 1, "shapes", "auto")),
        Check("random_search", (10_000, 1, "conflicts", "auto")),
    )
    return {
        "search": (
            Check("test_search"),
            Check("test_ejection"),
            Check("test_pairs"),
            Check("test_bands"),
            Check("random_search", (100_000, 1, "valley")),
            *beyond_rectangles,
        ),
        "problem": (Check("test_pairs"), Check("test_bands"), *beyond_rectangles),
        "order": (Check("test_order"), Check("random_orders", (graphs,))),
        "": (Check("random_run", (graphs, "graphs")),),
    }


def main() -> int:
    """Build, try every fault, print a table; 1 if one survives."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--graphs", type=int, default=20_000, help="random graphs per fault at most")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="faults tried at a time")
    parser.add_argument("--sample", type=int, default=len(FAULTS), metavar="N", help="try only N of the faults")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument("--core", type=Path, help="the core as a static library, built from these sources file by file")
    options = parser.parse_args()
    for fault in FAULTS:
        source_of(fault)
    faults = random.Random(options.seed).sample(FAULTS, min(options.sample, len(FAULTS)))
    table = Table("fault", "file", "found by", "seconds")
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        core = options.core or build_core(Path(folder), options.jobs)
        trial = Trial(Path(folder), core, checks_of(options.graphs))
        list(pool.map(trial.compile_test, {check.test for fault in faults for check in trial.checks_for(fault)}))
        found = list(pool.map(trial.of, faults))
        finders = [outcome.check for outcome in found if outcome.check is not None]
        for failure in pool.map(trial.without_fault, dict.fromkeys(finders)):
            if failure:
                print(f"without any fault: {failure}", file=sys.stderr)
                return 1
    for fault, outcome in zip(faults, found, strict=True):
        table.add_row(fault.what, fault.file, outcome.finding or "[bold]NOTHING[/bold]", f"{outcome.seconds:.1f}")
    Console(width=140).print(table)
    print(f"{len(finders)} of {len(faults)} faults found")
    return 0 if len(finders) == len(faults) else 1


def build_core(folder: Path, jobs: int) -> Path:
    """The core as a static library."""
    run("cmake", "-S", ROOT, "-B", folder / "core", "-G", "Ninja")
    run("cmake", "--build", folder / "core", "--target", "memplan_core", "-j", jobs)
    return folder / "core" / "libmemplan_core.a"


@dataclass(frozen=True)
class Outcome:
    """What finds a fault, how, and the seconds it took; None where nothing does."""

    check: Check | None
    finding: str | None
    seconds: float


@dataclass(frozen=True)
class Trial:
    """Tests the core with one of its files changed, in a folder of its own."""

    folder: Path
    core: Path
    checks: dict[str, tuple[Check, ...]]

    def checks_for(self, fault: Fault) -> tuple[Check, ...]:
        return self.checks.get(fault.file.partition("/")[0], self.checks[""])

    def compile_test(self, test: str) -> None:
        compile_cpp(TESTS / f"{test}.cpp", self.object_of(test))

    def without_fault(self, check: Check) -> str | None:
        """How the check fails as things are, if it does."""
        return self.finding(check, Path(tempfile.mkdtemp(dir=self.folder)) / check.test)

    def of(self, fault: Fault) -> Outcome:
        """What finds the fault."""
        start = time.perf_counter()
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        file = SOURCE / fault.file
        mutant = folder / file.name
        mutant.write_text(source_of(fault).replace(fault.old, fault.new), encoding="utf-8")
        compile_cpp(mutant, folder / "mutant.o", file.parent)
        for check in self.checks_for(fault):
            if finding := self.finding(check, folder / check.test, folder / "mutant.o"):
                return Outcome(check, finding, time.perf_counter() - start)
        return Outcome(None, None, time.perf_counter() - start)

    def finding(self, check: Check, binary: Path, *mutant: Path) -> str | None:
        """The test, and after how much it failed, with the mutant in the place of its original."""
        run("c++", self.object_of(check.test), *mutant, self.core, "-pthread", "-o", binary)
        try:
            done = subprocess.run([binary, *map(str, check.arguments)], capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            return f"{check.test}, does not end"
        if done.returncode == 0:
            return None
        tried = re.search(r"^\d+ (graphs|problems)", done.stdout, re.MULTILINE)
        return f"{check.test}, {tried[0]}" if tried else check.test

    def object_of(self, test: str) -> Path:
        return self.folder / f"{test}.o"


def source_of(fault: Fault) -> str:
    """The file that the fault changes, which holds `old` once."""
    text = (SOURCE / fault.file).read_text(encoding="utf-8")
    if text.count(fault.old) != 1:
        raise SystemExit(f"{fault.file}: expected once, found {text.count(fault.old)} times: {fault.old}")
    return text


def compile_cpp(source: Path, target: Path, *includes: Path) -> None:
    folders = [f"-I{folder}" for folder in (ROOT / "cpp" / "include", SOURCE, *includes)]
    run("c++", "-std=c++20", "-O1", *folders, "-c", source, "-o", target)


def run(*command: object) -> None:
    """Run a tool; its output is shown if it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{command[0]} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
