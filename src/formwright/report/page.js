"use strict";
// Hovering and clicking on charts, the dialog of one trial, the table of all. What a study holds is
// only ever set as text or as an image, never as markup.
(async () => {
  const PAGE = 25; // rows of the table at once
  const REACH = 28; // pixels from a point within which it is meant
  const $ = (query, root = document) => root.querySelector(query);
  const $$ = (query, root = document) => [...root.querySelectorAll(query)];

  function make(name, attributes = {}, ...children) {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  async function inflated(id) {
    const bytes = Uint8Array.from(atob($("#" + id).textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return JSON.parse(await new Response(stream).text());
  }

  function figure(value, digits = 4) {
    if (value === null || value === undefined) return "";
    const size = Math.abs(value);
    if (size >= 1e15 || (size > 0 && size < 1e-4)) return value.toExponential(digits - 2);
    for (const [limit, by, unit] of [[1e12, 1e12, "T"], [1e9, 1e9, "G"], [1e6, 1e6, "M"], [1e4, 1e3, "k"]]) {
      if (size >= limit) return rounded(value / by, digits) + unit;
    }
    return Number.isInteger(value) ? String(value) : rounded(value, digits);
  }
  function rounded(value, digits) {
    const before = value ? Math.floor(Math.log10(Math.abs(value))) + 1 : 1;
    return value.toFixed(Math.max(0, digits - before));
  }
  function duration(seconds) {
    if (seconds < 0.9995) return Number((seconds * 1e3).toPrecision(3)) + " ms";
    for (const [limit, unit] of [[86400, "days"], [3600, "h"], [60, "min"]]) {
      if (seconds >= 2 * limit) return (seconds / limit).toFixed(1) + " " + unit;
    }
    return seconds.toFixed(1) + " s";
  }

  const data = await inflated("trial-data");
  const column = new Map(data.names.map((name, i) => [name, data.values[i]]));
  const title = new Map(data.names.map((name, i) => [name, data.titles[i]]));
  const row = new Map(data.number.map((number, i) => [number, i]));
  let drawings = null; // inflated when the first is asked for

  // ------------------------------------------------------------------------------ one trial

  async function drawing(key, place) {
    drawings ??= inflated("drawing-data");
    const svg = (await drawings)[key];
    if (svg) {
      // An image cannot run anything, whatever is in it.
      place.replaceChildren(make("img", {
        src: "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svg),
        alt: "Drawing of the architecture",
      }));
    } else {
      place.replaceChildren(make("p", { class: "quiet" },
        "This page holds no drawing of it. For one: formwright describe with the notation above."));
    }
  }

  function notation(words) {
    const button = make("button", { type: "button", class: "copy", "aria-label": "Copy the notation" }, "Copy");
    return make("div", { class: "notation" }, make("code", {}, words), button);
  }

  function said(name, value) {
    if (value === null || value === undefined) return "";
    const words = data.words[name];
    if (Array.isArray(value)) return value.join(", ") || "none";
    return words ? (words[value] ?? String(value)) : typeof value === "number" ? figure(value, 6) : String(value);
  }

  function pairs(entries) {
    return make("dl", { class: "pairs" },
      ...entries.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  }

  function link(number) {
    return row.has(number)
      ? make("button", { type: "button", class: "link", "data-trial": number }, "trial " + number)
      : document.createTextNode("trial " + number);
  }

  function changes(i, parent) {
    const j = row.get(parent);
    if (j === undefined) return null;
    const found = data.decisions.flatMap((name, d) => {
      const [before, after] = [said(name, data.choices[d][j]), said(name, data.choices[d][i])];
      return before === after ? [] : [`${name}: ${before || "not in play"} → ${after || "not in play"}`];
    });
    const few = found.slice(0, 12).map((words) => make("li", {}, words));
    if (found.length > few.length) few.push(make("li", { class: "quiet" }, `and ${found.length - few.length} more`));
    return make("ul", { class: "changes quiet" }, ...few);
  }

  function lineage(i) {
    const number = data.number[i];
    const children = data.number.filter((_, j) => data.parents[j].includes(number)).slice(0, 40);
    const parts = data.parents[i].flatMap((parent) => [make("p", {}, "from ", link(parent)), changes(i, parent)]);
    if (!parts.length) parts.push(make("p", { class: "quiet" }, "Made from no other trial."));
    if (children.length) {
      parts.push(make("p", {}, "led to ", ...children.flatMap((child, k) => [k ? ", " : "", link(child)])));
    }
    return parts;
  }

  function open(number) {
    const i = row.get(Number(number));
    if (i === undefined) return;
    hide();
    const place = make("div", { class: "drawing" });
    const values = data.names.filter((name) => column.get(name)[i] !== null)
      .map((name) => [title.get(name), figure(column.get(name)[i])]);
    const about = [["state", data.state[i]], ["rung", String(data.rung[i])],
      ...(data.steps[i] === null ? [] : [["trained for", `${data.steps[i]} steps`]]), ["cost", duration(data.seconds[i])]];
    if (data.note[i]) about.push(["made by", data.note[i]]);
    if (data.front[i]) about.push(["front", "yes"]);
    const chosen = data.decisions.map((name, d) => [name, said(name, data.choices[d][i])]).filter(([, v]) => v !== "");
    const heading = (words) => make("h3", {}, words);
    const close = make("button", { type: "button", class: "close" }, "Close");
    const box = $("#detail");
    close.addEventListener("click", () => box.close());
    box.replaceChildren(
      make("header", {}, make("h2", {}, "Trial " + data.number[i]), close),
      make("div", {},
        data.reason[i] ? make("p", { class: "failed" }, data.reason[i]) : null,
        pairs([...values, ...about]),
        heading("Architecture"),
        data.notation[i] ? notation(data.notation[i]) : null,
        place,
        heading("Lineage"), ...lineage(i).filter(Boolean),
        heading("Decisions"), pairs(chosen)));
    if (!box.open) box.showModal();
    box.scrollTop = 0;
    drawing(String(data.number[i]), place);
  }

  // -------------------------------------------------------------------------------- charts

  const tip = $("#tip");
  function hide() {
    tip.hidden = true;
    $$(".ring").forEach((ring) => ring.remove());
  }

  function places(svg) {
    const frame = JSON.parse(svg.dataset.chart);
    const pair = svg.closest("[data-x]")?.dataset;
    const xs = pair ? column.get(pair.x) : data.number;
    const ys = pair ? column.get(pair.y) : column.get(data.objectives[0][0]);
    const at = (value, [low, high, log]) =>
      log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    return data.number.flatMap((_, i) => {
      if (!data.shown[i]) return [];
      const [x, y] = [at(xs[i], frame.x), at(ys[i], frame.y)];
      const inside = x >= 0 && x <= 1 && y >= 0 && y <= 1;
      return inside ? [[frame.left + frame.width * x, frame.top + frame.height * (1 - y), i]] : [];
    });
  }

  function watch(svg) {
    let points = null;
    const nearest = (event) => {
      points ??= places(svg);
      const box = svg.getBoundingClientRect();
      const zoom = box.width / svg.viewBox.baseVal.width;
      const [x, y] = [(event.clientX - box.left) / zoom, (event.clientY - box.top) / zoom];
      let [best, least] = [null, (REACH / zoom) ** 2];
      for (const point of points) {
        // A member of the front is meant before what lies about as near.
        const far = ((point[0] - x) ** 2 + (point[1] - y) ** 2) * (data.front[point[2]] ? 0.4 : 1);
        if (far < least) [best, least] = [point, far];
      }
      return best;
    };
    svg.addEventListener("pointermove", (event) => {
      const point = nearest(event);
      svg.style.cursor = point ? "pointer" : "";
      hide();
      if (!point) return;
      const ring = document.createElementNS("http://www.w3.org/2000/svg", "circle");
      for (const [key, value] of [["class", "ring"], ["cx", point[0]], ["cy", point[1]], ["r", 7]]) ring.setAttribute(key, value);
      svg.append(ring);
      show(point[2], event.clientX, event.clientY);
    });
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("click", (event) => {
      const point = nearest(event);
      if (point) open(data.number[point[2]]);
    });
  }

  function show(i, x, y) {
    const lines = data.objectives.map(([name]) => make("div", {}, `${title.get(name)} ${figure(column.get(name)[i])}`));
    const kind = data.front[i] ? "on the front" : data.random[i] ? "random control" : data.note[i];
    tip.replaceChildren(make("b", {}, `Trial ${data.number[i]}${kind ? " · " + kind : ""}`), ...lines);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
    tip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18) + "px";
  }

  $$("svg[data-chart]").forEach(watch);
  $$("[data-axis]").forEach((box) => box.addEventListener("change", () => {
    const [x, y] = ["x", "y"].map((axis) => $(`[data-axis=${axis}]`));
    if (x.value === y.value) { // the other axis gives way
      const other = box === x ? y : x;
      other.value = [...other.options].map((o) => o.value).find((v) => v !== box.value);
    }
    $$(".pair").forEach((pair) => { pair.hidden = pair.dataset.x !== x.value || pair.dataset.y !== y.value; });
  }));

  // --------------------------------------------------------------------------------- table

  const columns = [
    { name: "trial", get: (i) => data.number[i] },
    { name: "state", get: (i) => data.state[i] },
    ...data.names.map((name) => ({ name: title.get(name), key: name, get: (i) => column.get(name)[i], show: figure })),
    { name: "cost", key: "seconds", get: (i) => data.seconds[i], show: duration },
    ...(data.rung.some((rung) => rung) ? [{ name: "rung", get: (i) => data.rung[i] }] : []),
    { name: "note", get: (i) => data.reason[i] || data.note[i], words: true },
  ];
  let [sorted, upwards, page] = [0, true, 0];

  function filters() {
    const value = (name) => $(`[data-filter=${name}]`)?.value ?? "";
    const words = value("text").toLowerCase().split(/\s+/).filter(Boolean);
    const limited = columns.find((c) => c.key === value("column"));
    const [low, high] = ["low", "high"].map((end) => (value(end) === "" ? null : Number(value(end))));
    const front = $("[data-filter=front]")?.checked;
    return (i) => {
      if (front && !data.front[i]) return false;
      if (value("state") && data.state[i] !== value("state")) return false;
      if (value("rung") && String(data.rung[i]) !== value("rung")) return false;
      if (low !== null || high !== null) {
        const found = limited.get(i);
        if (found === null || (low !== null && found < low) || (high !== null && found > high)) return false;
      }
      if (!words.length) return true;
      const text = [data.number[i], data.state[i], data.note[i], data.reason[i], data.notation[i]].join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    };
  }

  function order(a, b) {
    const [x, y] = [columns[sorted].get(a), columns[sorted].get(b)];
    if (x === y) return a - b;
    if (x === null || y === null) return x === null ? 1 : -1; // what is missing comes last
    return (x < y) === upwards ? -1 : 1;
  }

  function cell(c, i) {
    const value = c.get(i);
    if (c === columns[0]) {
      return make("td", { class: data.front[i] ? "on" : null },
        make("b", {}, make("button", { type: "button", class: "link", "data-trial": value }, String(value))));
    }
    const words = value === null ? "" : c.show ? c.show(value) : String(value);
    return make("td", c.words ? { class: "words", title: words } : {}, words);
  }

  function table() {
    const place = $("#trials");
    if (!place) return;
    const found = data.number.map((_, i) => i).filter(filters()).sort(order);
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    page = Math.min(page, pages - 1);
    const head = columns.map((c, k) => {
      const button = make("button", { type: "button" }, c.name + (k === sorted ? (upwards ? " ▲" : " ▼") : ""));
      button.addEventListener("click", () => {
        [sorted, upwards, page] = [k, k === sorted ? !upwards : true, 0];
        table();
        $$("#trials th button")[k].focus();
      });
      return make("th", { scope: "col", class: c.words ? "words" : null, "aria-sort": k === sorted ? (upwards ? "ascending" : "descending") : null }, button);
    });
    const rows = found.slice(page * PAGE, (page + 1) * PAGE)
      .map((i) => make("tr", {}, ...columns.map((c) => cell(c, i))));
    place.replaceChildren(make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
    const step = (words, by, possible) => {
      const button = make("button", { type: "button", disabled: possible ? null : "" }, words);
      button.addEventListener("click", () => { page += by; table(); });
      return button;
    };
    $("#pages").replaceChildren(step("Previous", -1, page > 0), step("Next", 1, page < pages - 1),
      `page ${page + 1} of ${pages}, ${found.length.toLocaleString("en")} of ${data.number.length.toLocaleString("en")} trials`);
  }
  $$("[data-filter]").forEach((box) => box.addEventListener("input", () => { page = 0; table(); }));
  table();

  // --------------------------------------------------------------------- clicks everywhere

  document.addEventListener("click", async (event) => {
    const copy = event.target.closest(".copy");
    if (copy) {
      const code = $("code", copy.parentElement);
      try {
        await navigator.clipboard.writeText(code.textContent);
      } catch { // not every browser lets a page from a disk do that
        getSelection().selectAllChildren(code);
        document.execCommand("copy");
      }
      copy.textContent = "Copied";
      setTimeout(() => { copy.textContent = "Copy"; }, 1500);
    }
    const button = event.target.closest("[data-trial]");
    if (button && !button.closest("svg")) open(button.dataset.trial);
    if (event.target === $("#detail")) $("#detail").close(); // beside it
  });
  document.addEventListener("keydown", (event) => {
    const mark = event.target.closest?.("svg [data-trial]");
    if (mark && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      open(mark.dataset.trial);
    }
  });
  document.addEventListener("focusin", (event) => {
    const mark = event.target.closest?.("svg [data-trial]");
    if (!mark || !mark.matches(":focus-visible")) return;
    const box = mark.getBoundingClientRect();
    show(row.get(Number(mark.dataset.trial)), box.right, box.bottom);
  });
  document.addEventListener("focusout", hide);
  $$("details[data-draw]").forEach((box) => box.addEventListener("toggle", () => {
    const place = $("[data-place]", box);
    if (box.open && !place.hasChildNodes()) drawing(box.dataset.draw, place);
  }));
  document.documentElement.dataset.ready = "yes";
})();
