// Charts: what is near the mouse, and the one chart whose axes, colour and frame can be chosen.

const tip = $("#tip");
function hide() {
  tip.hidden = true;
  $$(".ring").forEach((ring) => ring.remove());
}

function along(value, [low, high, log]) {
  return log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
}

function places(svg) {
  const frame = JSON.parse(svg.dataset.chart);
  const pair = svg.closest("[data-x]").dataset;
  const [xs, ys] = [column.get(pair.x), column.get(pair.y)];
  return data.number.flatMap((_, i) => {
    if (!inPlay(i) || xs[i] === null || ys[i] === null) return [];
    const [x, y] = [along(xs[i], frame.x), along(ys[i], frame.y)];
    const inside = x >= 0 && x <= 1 && y >= 0 && y <= 1;
    return inside ? [[frame.left + frame.width * x, frame.top + frame.height * (1 - y), i]] : [];
  });
}

function watch(svg) {
  let points = null;
  let drag = null; // where a frame was begun, and the rectangle
  const at = (event) => {
    const box = svg.getBoundingClientRect();
    const zoom = box.width / svg.viewBox.baseVal.width;
    return [(event.clientX - box.left) / zoom, (event.clientY - box.top) / zoom, zoom];
  };
  const nearest = (event) => {
    points ??= places(svg);
    const [x, y, zoom] = at(event);
    let [best, least] = [null, (REACH / zoom) ** 2];
    for (const point of points) {
      // A member of the front is meant before what lies about as near.
      const far = ((point[0] - x) ** 2 + (point[1] - y) ** 2) * (data.front[point[2]] ? 0.4 : 1);
      if (far < least) [best, least] = [point, far];
    }
    return best;
  };
  svg.addEventListener("pointerdown", (event) => {
    if (event.button === 0 && event.pointerType !== "touch") drag = { from: at(event), to: null, shape: null };
  });
  svg.addEventListener("pointermove", (event) => {
    if (drag && event.buttons) {
      const [x, y] = at(event);
      if (!drag.shape && Math.hypot(x - drag.from[0], y - drag.from[1]) < 8) return;
      hide();
      drag.shape ??= svg.appendChild(draw("rect", { class: "lens" }));
      drag.to = [x, y];
      const [left, top] = [Math.min(x, drag.from[0]), Math.min(y, drag.from[1])];
      for (const [key, value] of [["x", left], ["y", top], ["width", Math.abs(x - drag.from[0])], ["height", Math.abs(y - drag.from[1])]]) {
        drag.shape.setAttribute(key, value);
      }
      return;
    }
    const point = nearest(event);
    svg.style.cursor = point ? "pointer" : "crosshair";
    hide();
    if (!point) return;
    svg.append(draw("circle", { class: "ring", cx: point[0], cy: point[1], r: 7 }));
    show(point[2], event.clientX, event.clientY);
  });
  svg.addEventListener("pointerleave", () => { hide(); drag?.shape?.remove(); drag = null; });
  svg.addEventListener("click", (event) => {
    const [begun, frame] = [drag, JSON.parse(svg.dataset.chart)];
    drag = null;
    if (begun?.shape) {
      begun.shape.remove();
      framed(frame, begun.from, begun.to);
      return;
    }
    const point = nearest(event);
    if (!point) return;
    const number = data.number[point[2]];
    if (event.shiftKey && held !== null && held !== number) compare(String(held), String(number));
    else if (event.shiftKey) hold(number);
    else open(number);
  });
  svg.addEventListener("dblclick", () => { view.zoom = null; redraw(); });
}

let held = null; // the trial that a comparison is begun with
function hold(number) {
  held = number;
  const note = $("#held");
  if (note) note.textContent = `Trial ${number} is held: Shift and click on another to compare the two.`;
}

function show(i, x, y) {
  const names = [...new Set([...data.objectives.map(([name]) => name), ...(explorer ? [view.x, view.y, view.colour] : [])])].filter(Boolean);
  const lines = names.filter((name) => column.get(name)[i] !== null)
    .map((name) => make("div", {}, `${title.get(name)} ${shownValue(name, i)}`));
  const kind = data.front[i] ? "on the front" : data.random[i] ? "random control" : data.note[i];
  tip.replaceChildren(make("b", {}, `Trial ${data.number[i]}${kind ? " · " + kind : ""}`), ...lines);
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18) + "px";
}

// ---------------------------------------------------------- the chart that can be chosen

const explorer = $("[data-x]");
const view = explorer ? { x: explorer.dataset.x, y: explorer.dataset.y, colour: "", stage: "", zoom: null } : null;
const SHADES = 6;
const MARKS = 300; // of the front that can be reached by keyboard

// Whether charts show a trial: those that are compared, or those of the stage that was chosen.
function inPlay(i) {
  return !view || view.stage === "" ? data.shown[i] : data.state[i] === "done" && String(data.rung[i]) === view.stage;
}

// As report/chart.py: the whole front, nearly all others, logarithmic where values are far apart.
function scaleOf(values, must) {
  const ordered = values.filter(Number.isFinite).sort((a, b) => a - b);
  const spare = Math.floor(ordered.length / 50);
  const core = [...ordered.slice(spare, ordered.length - spare), ...must];
  if (!core.length) return [0, 1, 0];
  const [low, high] = core.reduce(([l, h], v) => [Math.min(l, v), Math.max(h, v)], [Infinity, -Infinity]);
  if (low === high) {
    const room = Math.abs(low) * 0.1 || 1;
    return [low - room, high + room, 0];
  }
  if (low > 0 && high / low >= 100) {
    const room = (high / low) ** 0.04;
    return [low / room, high * room, 1];
  }
  return [low - (high - low) * 0.05, high + (high - low) * 0.05, 0];
}

function stretched(name, pool, front) { // baseline and limit too, where they are not far off
  const values = column.get(name);
  const [all, must] = [pool.map((i) => values[i]), front.map((i) => values[i])];
  const plain = scaleOf(all, must);
  for (const value of [data.baseline?.values[name], data.limits[name]]) {
    if (value === null || value === undefined) continue;
    const whole = scaleOf(all, [...must, value]);
    if (whole[2] || pool.length < 4 || whole[1] - whole[0] <= 3 * (plain[1] - plain[0])) must.push(value);
  }
  return scaleOf(all, must);
}

function ticks([low, high, log], wanted) {
  if (log) {
    const first = Math.floor(Math.log10(low));
    const decades = Array.from({ length: Math.ceil(Math.log10(high)) - first + 1 }, (_, k) => first + k);
    for (const parts of [[1, 2, 5], [1, 3], [1]]) {
      const found = decades.flatMap((d) => parts.map((p) => p * 10 ** d)).filter((v) => v >= low && v <= high);
      if (found.length >= 2 && found.length <= wanted + 2) return found;
    }
  }
  const rough = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((part) => part * power).find((s) => s >= rough * (1 - 1e-9));
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.max(0, Math.floor(high / step + 1e-9) - first + 1);
  if (count < 2 && wanted < 12) return ticks([low, high, log], wanted * 2); // one tick is no scale
  return Array.from({ length: count }, (_, k) => (first + k) * step);
}

function tickWords(value) {
  const words = figure(Number(value.toPrecision(12)), 6);
  return words.includes(".") && !words.includes("e") ? words.replace(/\.?0+([kMGT]?)$/, "$1") : words;
}

function label(name) {
  const wish = wishes.get(name);
  return title.get(name) + (wish ? ` · ${wish === "min" ? "smaller" : "larger"} is better` : "");
}

// Trials that no other beats in both of two objectives.
function frontOf(x, y, pool) {
  const [sx, sy] = [x, y].map((name) => (wishes.get(name) === "max" ? -1 : 1));
  const [xs, ys] = [column.get(x), column.get(y)];
  const ordered = pool.filter((i) => data.counts[i] || view.stage !== "").sort((a, b) => sx * (xs[a] - xs[b]) || sy * (ys[a] - ys[b]));
  let least = Infinity;
  return ordered.filter((i) => {
    if (sy * ys[i] >= least) return false;
    least = sy * ys[i];
    return true;
  });
}

function redraw() {
  if (!explorer) return;
  [explorer.dataset.x, explorer.dataset.y] = [view.x, view.y];
  const [xs, ys] = [column.get(view.x), column.get(view.y)];
  const pool = data.number.map((_, i) => i).filter((i) => inPlay(i) && xs[i] !== null && ys[i] !== null);
  const best = view.stage === "" ? null : new Set(wishes.has(view.x) && wishes.has(view.y) ? frontOf(view.x, view.y, pool) : []);
  const front = pool.filter((i) => (best ? best.has(i) : data.front[i]));
  const scales = view.zoom ?? [view.x, view.y].map((name) => stretched(name, pool, front));
  const sheets = $$("svg.chart", explorer).map((old) => sheet(old, scales, pool, front));
  $(".plot", explorer).replaceChildren(...sheets);
  sheets.forEach(watch);
  const reset = $("[data-zoom=reset]");
  if (reset) reset.disabled = !view.zoom;
  shades(pool);
}

function sheet(old, scales, pool, front) {
  const frame = { ...JSON.parse(old.dataset.chart), x: scales[0], y: scales[1] };
  const { left, top, width, height } = frame;
  const place = (x, y) => [left + width * along(x, scales[0]), top + height * (1 - along(y, scales[1]))];
  const holds = (x, y) => x >= scales[0][0] && x <= scales[0][1] && y >= scales[1][0] && y <= scales[1][1];
  const [xs, ys] = [column.get(view.x), column.get(view.y)];
  const words = `${title.get(view.y)} against ${title.get(view.x)}: ${front.length} on the front, ${pool.length - front.length} others.`;
  const svg = draw("svg", { class: old.getAttribute("class"), viewBox: old.getAttribute("viewBox"), role: "group",
    "aria-label": words, "data-chart": JSON.stringify(frame), "data-kind": "pareto" });
  svg.append(...axes(frame, scales));
  const dots = (rows, cls) => {
    const path = rows.filter((i) => holds(xs[i], ys[i])).map((i) => {
      const [x, y] = place(xs[i], ys[i]);
      return `M${x.toFixed(1)} ${y.toFixed(1)}h0`;
    }).join("");
    if (path) svg.append(draw("path", { class: "dots " + cls, d: path }));
  };
  const fine = pool.length > 1500 && !view.zoom ? " fine" : "";
  const ahead = new Set(front);
  const others = pool.filter((i) => !ahead.has(i));
  if (view.colour) {
    const buckets = bucketed(others);
    buckets.forEach((rows, k) => dots(rows, `shade shade${k}${fine}`));
  } else {
    dots(others.filter((i) => !data.random[i]), "dominated" + fine);
    dots(others.filter((i) => data.random[i]), "random" + fine);
  }
  if (wishes.has(view.x) && wishes.has(view.y)) {
    const line = frontOf(view.x, view.y, pool).flatMap((i, k, all) => (k ? [[xs[i], ys[all[k - 1]]], [xs[i], ys[i]]] : [[xs[i], ys[i]]]));
    const path = line.map(([x, y], k) => {
      const [a, b] = place(x, y);
      return `${k ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`;
    }).join("");
    if (line.length > 1) svg.append(clipped(frame, draw("path", { class: "line front", d: path })));
  }
  for (const [axis, name] of [[0, view.x], [1, view.y]]) {
    const most = data.limits[name];
    if (most !== undefined && most >= scales[axis][0] && most <= scales[axis][1]) svg.append(...limit(frame, scales, axis, most, name));
  }
  const marked = front.filter((i) => holds(xs[i], ys[i])).slice(0, MARKS);
  const buckets = view.colour ? bucketed(front) : [];
  for (const i of marked) {
    const [x, y] = place(xs[i], ys[i]);
    const shade = buckets.findIndex((rows) => rows.includes(i));
    svg.append(draw("circle", { class: "mark " + (shade < 0 ? "front" : `front shade shade${shade}`), cx: x.toFixed(1), cy: y.toFixed(1),
      r: data.number[i] === data.chosen ? 8 : 5, tabindex: 0, role: "button", "data-trial": data.number[i],
      "aria-label": `Trial ${data.number[i]}: ${title.get(view.x)} ${figure(xs[i])}, ${title.get(view.y)} ${figure(ys[i])}` }));
  }
  const [bx, by] = [view.x, view.y].map((name) => data.baseline?.values[name] ?? null);
  if (bx !== null && by !== null && holds(bx, by)) {
    const [x, y] = place(bx, by);
    svg.append(draw("g", {}, draw("title", {}, data.baseline.name),
      draw("polygon", { class: "baseline", points: `${x},${y - 8} ${x + 8},${y} ${x},${y + 8} ${x - 8},${y}` })));
  }
  return svg;
}

function axes({ left, top, width, height }, scales) {
  const shapes = draw("g", { class: "axes", "aria-hidden": "true" });
  for (const value of ticks(scales[0], Math.max(3, Math.floor(width / 90)))) {
    const x = (left + width * along(value, scales[0])).toFixed(1);
    shapes.append(draw("path", { class: "grid", d: `M${x} ${top}V${top + height}` }),
      draw("text", { x, y: top + height + 17, "text-anchor": "middle" }, tickWords(value)));
  }
  for (const value of ticks(scales[1], Math.max(3, Math.floor(height / 55)))) {
    const y = top + height * (1 - along(value, scales[1]));
    shapes.append(draw("path", { class: "grid", d: `M${left} ${y.toFixed(1)}H${left + width}` }),
      draw("text", { x: left - 7, y: (y + 4).toFixed(1), "text-anchor": "end" }, tickWords(value)));
  }
  shapes.append(draw("path", { class: "axis", d: `M${left} ${top}V${top + height}h${width}` }));
  return [shapes,
    draw("text", { class: "label", x: left + width / 2, y: top + height + 40, "text-anchor": "middle" }, label(view.x)),
    draw("text", { class: "label", "text-anchor": "middle", transform: `translate(13 ${top + height / 2}) rotate(-90)` }, label(view.y))];
}

function limit({ left, top, width, height }, scales, axis, most, name) {
  const words = `limit ${figure(most)}`;
  const far = along(most, scales[axis]);
  const [x, y] = [left + width * far, top + height * (1 - far)];
  const line = draw("path", { class: "line limit", d: axis ? `M${left} ${y}h${width}` : `M${x} ${top}v${height}` }, draw("title", {}, `${title.get(name)}: ${words}`));
  const text = draw("text", axis ? { class: "limit", x: left + width - 4, y: y - 5, "text-anchor": "end" } : { class: "limit", x: x - 5, y: top + 12, "text-anchor": "end" }, words);
  return [line, text];
}

function clipped({ left, top, width, height }, shape) {
  const inner = draw("svg", { x: left, y: top, width, height, viewBox: `${left} ${top} ${width} ${height}` }, shape);
  inner.style.overflow = "hidden";
  return inner;
}

// ------------------------------------------------------------------ colour, zoom, axes

function bounds() {
  const values = column.get(view.colour).filter((v, i) => v !== null && inPlay(i)).sort((a, b) => a - b);
  return Array.from({ length: SHADES - 1 }, (_, k) => values[Math.floor(((k + 1) * values.length) / SHADES)]);
}

function bucketed(rows) {
  const [values, ends] = [column.get(view.colour), bounds()];
  const found = Array.from({ length: SHADES }, () => []);
  for (const i of rows) {
    if (values[i] !== null) found[ends.filter((end) => values[i] >= end).length].push(i);
  }
  return found;
}

function shades(pool) {
  const place = $("#shades");
  if (!place) return;
  place.hidden = !view.colour;
  if (!view.colour) return;
  const values = column.get(view.colour);
  place.replaceChildren(make("li", {}, title.get(view.colour) + ":"), ...bucketed(pool).flatMap((rows, k) => {
    if (!rows.length) return [];
    const [low, high] = rows.reduce(([l, h], i) => [Math.min(l, values[i]), Math.max(h, values[i])], [Infinity, -Infinity]);
    return [make("li", {}, make("span", { class: `key shade${k}`, "aria-hidden": "true" }), low === high ? figure(low) : `${figure(low)} to ${figure(high)}`)];
  }));
}

function back(frame, x, y) { // from a place on the sheet to values
  const value = (share, [low, high, log]) => (log ? low * (high / low) ** share : low + (high - low) * share);
  return [value((x - frame.left) / frame.width, frame.x), value(1 - (y - frame.top) / frame.height, frame.y)];
}

function framed(frame, from, to) {
  const [[x0, y0], [x1, y1]] = [back(frame, ...from), back(frame, ...to)];
  view.zoom = [[Math.min(x0, x1), Math.max(x0, x1), frame.x[2]], [Math.min(y0, y1), Math.max(y0, y1), frame.y[2]]];
  redraw();
}

function scaled(by) { // around the chosen trial where it is in sight, else around the middle
  const frame = JSON.parse($$("svg.chart", explorer).find((svg) => svg.getClientRects().length).dataset.chart);
  const i = row.get(data.chosen);
  const centre = [[view.x, frame.x], [view.y, frame.y]].map(([name, scale]) => {
    const share = i === undefined || column.get(name)[i] === null ? 0.5 : along(column.get(name)[i], scale);
    return share >= 0 && share <= 1 ? share : 0.5;
  });
  const ends = (share) => [share - share * by, share + (1 - share) * by];
  const [[l, r], [b, t]] = centre.map(ends);
  framed(frame, [frame.left + frame.width * l, frame.top + frame.height * (1 - t)], [frame.left + frame.width * r, frame.top + frame.height * (1 - b)]);
}

if (explorer) {
  $$("svg[data-chart]", explorer).forEach(watch);
  $$("[data-axis]").forEach((box) => box.addEventListener("change", () => {
    const [x, y] = ["x", "y"].map((axis) => $(`[data-axis=${axis}]`));
    if (x.value === y.value) { // the other axis gives way
      const other = box === x ? y : x;
      if (box === x || box === y) other.value = [...other.options].map((o) => o.value).find((v) => v !== box.value);
    }
    Object.assign(view, { x: x.value, y: y.value, colour: $("[data-axis=colour]").value, stage: $("[data-axis=stage]")?.value ?? "" });
    if (box.dataset.axis !== "colour") view.zoom = null;
    redraw();
  }));
  $$("[data-zoom]").forEach((button) => button.addEventListener("click", () => {
    if (button.dataset.zoom === "reset") { view.zoom = null; redraw(); }
    else scaled(button.dataset.zoom === "in" ? 0.5 : 2);
  }));
}
