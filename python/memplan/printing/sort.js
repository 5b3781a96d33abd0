// Tables of a page: a click on a column's head sorts by it, a second click the other way round.
"use strict";
(() => {
  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

  /** What a cell is sorted by: a number, in bytes where it has a unit, else its text; of "1 B → 2 B" the last. */
  function keyOf(text) {
    const last = text.split("→").pop().trim();
    const found = /^([+-]?[\d,]*\.?\d+(?:e[+-]?\d+)?)\s*([KMGTPE]?i?B)?\b/.exec(last);
    if (found === null) return last.toLowerCase();
    return Number(found[1].replaceAll(",", "")) * 1024 ** Math.max(UNITS.indexOf(found[2]), 0);
  }

  const collator = new Intl.Collator("en", {numeric: true});

  /** Numbers before texts. */
  function order(a, b) {
    const numbers = (typeof b === "number") - (typeof a === "number");
    if (numbers !== 0) return numbers;
    return typeof a === "number" ? a - b : collator.compare(a, b);
  }

  function sort(head) {
    const table = head.closest("table"), column = [...head.parentNode.children].indexOf(head);
    const way = head.getAttribute("aria-sort") === "descending" ? 1 : -1;
    for (const other of head.parentNode.children) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [keyOf(row.cells[column].textContent), row]);
    rows.sort(([a], [b]) => way * order(a, b));
    body.append(...rows.map(([, row]) => row));
  }

  for (const head of document.querySelectorAll(".memplan thead th")) {
    head.tabIndex = 0;
    head.title = "sort";
    head.addEventListener("click", () => sort(head));
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(head); });
  }
})();
