// What happens in the browser. Views are the models of each plan's charts, as charts.py made them.
"use strict";

const memplan = (() => {
  const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  const MANY = 3000, MOST_LABELS = 250, FONT = "11px sans-serif", LINE = 14;
  const LEAST = 5, PART = /[./](?=[^./]*[^\d./])/g;  // letters of an end that say something; before a part of a name
  const NAMED_SIDES = ["left", "right", "bottom", "top", "name"];

  const scaleOf = (size) => Math.min(Math.max(Math.floor(Math.log2(Math.max(size, 1)) / 10), 0), UNITS.length - 1);
  const exact = (size) => size.toLocaleString("en-US");

  /** "1.50 KiB (1,536 bytes)" */
  function bytes(size) {
    const scale = scaleOf(size);
    return scale === 0 ? `${size} B` : `${(size / 1024 ** scale).toFixed(2)} ${UNITS[scale]} (${exact(size)} bytes)`;
  }

  /** A tick in the unit that suits the largest, and in bytes where the ticks are too close for it. */
  function tick(size, ticks) {
    const largest = scaleOf(Math.max(...ticks.map(Math.abs)));
    const apart = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : size;
    const scale = apart * 1024 < 1024 ** largest ? 0 : largest;
    const digits = {maximumFractionDigits: 10};
    return `${(size / 1024 ** scale).toLocaleString("en-US", digits)} ${UNITS[scale]}`;
  }

  /** The address in its pool of a byte of a picture in which pools begin one above the other. */
  function inPool(byte, begins, bases) {
    const pool = Math.max(begins.findLastIndex((begin) => begin <= byte), 0);
    return byte - begins[pool] + bases[pool];
  }

  /** Boxes and tensors inside them, by name: lists of {view, left, right, bottom, top}. */
  function indexByName(views) {
    const found = new Map();
    views.forEach((view, k) => {
      for (const {data} of [view.boxes, view.tenants]) {
        const [left, right, bottom, top, names] = NAMED_SIDES.map((column) => data[column]);
        for (let i = 0; i < names.length; i++) {
          if (!found.has(names[i])) found.set(names[i], []);
          found.get(names[i]).push({view: k, left: left[i], right: right[i], bottom: bottom[i], top: top[i]});
        }
      }
    });
    return found;
  }

  /** Alpha of a box's border by its thickness in pixels: none where it would be all that is seen. */
  const border = (pixels) => Math.min(Math.max((pixels - 1.5) / 6, 0), 1);

  /** Write names into the boxes that have room, the largest first, and fade the borders of thin boxes. */
  function decorate(view, marked) {
    const {gantt, boxes, labels} = view, {data} = boxes;
    const {start: x0, end: x1} = gantt.x_range, {start: y0, end: y1} = gantt.y_range;
    const perStep = gantt.inner_width / (x1 - x0), perByte = gantt.inner_height / (y1 - y0);
    const [lefts, rights, bottoms, tops, names] = NAMED_SIDES.map((column) => data[column]);
    const rooms = [], borders = new Float32Array(names.length);
    let visible = 0;
    for (let i = 0; i < names.length; i++) {
      const left = Math.max(lefts[i], x0), right = Math.min(rights[i], x1);
      const bottom = Math.max(bottoms[i], y0), top = Math.min(tops[i], y1);
      if (left >= right || bottom >= top) continue;
      visible++;
      const width = (right - left) * perStep, height = (top - bottom) * perByte;
      borders[i] = border(Math.min(width, height));
      const room = Math.min(width, height) >= LINE && (marked.size === 0 || marked.has(names[i]));
      if (room) rooms.push({x: (left + right) / 2, y: (bottom + top) / 2, width, height, text: names[i]});
    }
    if (visible > MANY) borders.fill(0);
    if (borders.some((alpha, i) => alpha !== data.border[i])) {
      data.border = borders;
      boxes.change.emit();
    }
    rooms.sort((a, b) => b.width * b.height - a.width * a.height);
    labels.data = labelled(rooms);
  }

  const ruler = document.createElement("canvas").getContext("2d");

  /** A name, or its longest end in so many pixels, as in pictures: "…attn.addmm_3", "…addmm_3", "…dmm_3". */
  function ending(name, room) {
    const fits = (text) => ruler.measureText(text).width + 6 <= room;
    if (fits(name)) return name;
    for (const {index} of name.matchAll(PART)) {
      const end = `…${name.slice(index + 1)}`;
      if (fits(end)) return end;
    }
    const most = Math.floor((room - 6) / ruler.measureText("m").width);
    return most > LEAST ? `…${name.slice(1 - most)}` : "";
  }

  /** Columns of the labels that fit, lying or upright. */
  function labelled(rooms) {
    const columns = {x: [], y: [], text: [], angle: []};
    ruler.font = FONT;
    for (const {x, y, width, height, text} of rooms) {
      const flat = ending(text, width), upright = ending(text, height);
      const shown = flat.length >= upright.length ? flat : upright;
      if (shown === "") continue;
      columns.x.push(x);
      columns.y.push(y);
      columns.text.push(shown);
      columns.angle.push(shown === flat ? 0 : Math.PI / 2);
      if (columns.x.length === MOST_LABELS) break;
    }
    return columns;
  }

  /** Zoom until all of these boxes are in view, with room around them, but none beyond the plans. */
  function zoomTo(home, boxes) {
    const span = (low, high) => [Math.min(...boxes.map(low)), Math.max(...boxes.map(high))];
    for (const [{range, start, end}, [low, high], least] of [
      [home[0], span((box) => box.left, (box) => box.right), 8],
      [home[1], span((box) => box.bottom, (box) => box.top), 1],
    ]) {
      const room = Math.max(high - low, least) * 1.5;
      range.setv({start: Math.max(low - room, start), end: Math.min(high + room, end)});
    }
  }

  /** What runs at a step of a plan, and the bytes in use: "step 12 (conv_3): 1.50 KiB (1,536 bytes)". */
  function reading({curve: {data: {step, load}}, ops}, at) {
    let low = 0, high = step.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (step[middle] <= at) low = middle + 1;
      else high = middle;
    }
    const op = ops[at] === undefined ? "" : ` (${ops[at]})`;
    return `step ${exact(at)}${op}: ${bytes(low > 0 ? load[low - 1] : 0)} in use`;
  }

  /** Show a line in all charts, so many pixels from their left, and what happens at that step; null for no line. */
  function point(pixel, step) {
    const inside = pixel !== null && steps !== null && steps.start <= step && step < steps.end;
    for (const line of document.querySelectorAll(".pointer")) {
      line.hidden = !inside;
      line.style.transform = `translateX(${pixel}px)`;
    }
    readAt(inside ? Math.floor(step) : null);
  }

  let steps = null, readAt = () => {};

  function start(views, fills, search, paint, first) {
    const found = indexByName(views);
    const names = [...found.keys()], lowered = names.map((name) => name.toLowerCase());
    const status = document.getElementById("found");
    const legends = document.querySelectorAll("#legends > *");
    const readings = document.querySelectorAll(".reading");
    steps = views[0].gantt.x_range;
    const {x_range, y_range} = views[0].gantt;
    const home = [x_range, y_range].map((range) => ({range, start: range.start, end: range.end}));
    let marked = new Set();
    search.completions = names;

    let waiting = null;
    const redecorate = () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => views.forEach((view) => decorate(view, marked)), 60);
    };

    const mark = (hits) => {
      marked = new Set(hits);
      const boxes = hits.flatMap((name) => found.get(name));
      views.forEach((view, k) => {
        const own = boxes.filter((box) => box.view === k);
        const column = (side) => own.map((box) => box[side]);
        const [left, right, bottom, top] = NAMED_SIDES.slice(0, 4).map(column);
        view.marks.data = {left, right, bottom, top};
        view.veil.visible = hits.length > 0;
      });
      redecorate();
      return boxes;
    };

    const hitsOf = (text) => {
      const part = text.trim().toLowerCase();
      return part === "" ? [] : names.filter((_, i) => lowered[i].includes(part));
    };

    const typed = (text) => {
      const hits = hitsOf(text);
      mark(hits);
      status.textContent = text.trim() === "" ? "" : `${exact(hits.length)} ${hits.length === 1 ? "tensor" : "tensors"}`;
    };

    const chosen = (text) => {
      const boxes = found.has(text) ? mark([text]) : mark(hitsOf(text));
      if (boxes.length > 0) zoomTo(home, boxes);
    };

    /** All steps and bytes, and nothing marked. */
    const reset = () => {
      search.value = search.value_input = "";
      typed("");
      for (const {range, start, end} of home) range.setv({start, end});
    };
    document.getElementById("whole").addEventListener("click", reset);
    document.addEventListener("keydown", (event) => { if (event.key === "Escape") reset(); });

    search.properties.value_input.change.connect(() => typed(search.value_input));
    search.properties.value.change.connect(() => chosen(search.value));
    paint.properties.active.change.connect(() => {
      for (const {drawn, gone} of views) {
        for (const boxes of gone ? [drawn, gone] : [drawn]) boxes.glyph.fill_color = fills[paint.active];
      }
      legends.forEach((legend, k) => { legend.hidden = k !== paint.active; });
    });
    for (const view of views) {
      view.boxes.selected.properties.indices.change.connect(() => {
        const {indices} = view.boxes.selected;
        mark(indices.length > 0 ? [view.boxes.data.name[indices[0]]] : []);
        status.textContent = indices.length > 0 ? view.boxes.data.name[indices[0]] : "";
      });
      view.gantt.properties.inner_width.change.connect(redecorate);
      view.gantt.properties.inner_height.change.connect(redecorate);
    }
    for (const range of [x_range, y_range]) range.change.connect(redecorate);
    readAt = (step) => views.forEach((view, k) => { readings[k].textContent = step === null ? "" : reading(view, step); });
    if (first.length > 0) {
      mark(first.filter((name) => found.has(name)));
      status.textContent = `${exact(first.length)} ${first.length === 1 ? "tensor" : "tensors"}`;
    }
    redecorate();
  }

  return {bytes, tick, inPool, start, point};
})();
