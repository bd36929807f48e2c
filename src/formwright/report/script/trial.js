// One trial in a dialog: values, architecture, lineage, decisions; and the way to a comparison.

let drawings = null; // inflated when the first is asked for

async function drawing(key, place) {
  drawings ??= inflated("drawing-data");
  const svg = (await drawings)[key];
  if (svg) {
    // An image cannot run anything, whatever is in it.
    place.replaceChildren(make("img", {
      src: "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svg),
      alt: key === "baseline" ? "Drawing of the baseline" : "Drawing of trial " + key,
    }));
  } else {
    place.replaceChildren(make("p", { class: "quiet" },
      "This page holds no drawing of it. For one: formwright describe with the notation above."));
  }
}

function notation(words) {
  const button = make("button", { type: "button", class: "copy", "aria-label": "Copy: the notation" }, "Copy");
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

function heading(words) {
  return make("h3", {}, words);
}

function dialog(words, wide, ...children) {
  const box = $("#detail");
  const close = make("button", { type: "button", class: "close" }, "Close");
  close.addEventListener("click", () => box.close());
  box.classList.toggle("broad", wide);
  box.replaceChildren(make("header", {}, make("h2", {}, words), close), make("div", {}, ...children.filter(Boolean)));
  if (!box.open) box.showModal();
  box.scrollTop = 0;
}

function shownValue(name, i) {
  const [low, high] = ["_low", "_high"].map((end) => column.get(name + end)?.[i] ?? null);
  const value = figure(column.get(name)[i]);
  return low !== null && high !== null && low < high ? `${value} (${figure(low)} to ${figure(high)})` : value;
}

function open(number) {
  const i = row.get(Number(number));
  if (i === undefined) return;
  hide();
  const place = make("div", { class: "drawing" });
  const values = data.names.filter((name) => column.get(name)[i] !== null && !/_(low|high)$/.test(name))
    .map((name) => [title.get(name), shownValue(name, i)]);
  const about = [["state", data.state[i]], ["rung", String(data.rung[i])],
    ...(data.steps[i] === null ? [] : [["trained for", `${data.steps[i]} steps`]]), ["cost", duration(data.seconds[i])]];
  if (data.note[i]) about.push(["made by", data.note[i]]);
  if (data.front[i]) about.push(["front", "yes"]);
  const chosen = data.decisions.map((name, d) => [name, said(name, data.choices[d][i])]).filter(([, v]) => v !== "");
  dialog("Trial " + data.number[i], false,
    data.reason[i] ? make("p", { class: "failed" }, data.reason[i]) : null,
    picker(data.number[i]),
    pairs([...values, ...about]),
    heading("Architecture"),
    data.notation[i] ? notation(data.notation[i]) : null,
    place,
    heading("Lineage"), ...lineage(i).filter(Boolean),
    chosen.length ? heading("Decisions") : null, chosen.length ? pairs(chosen) : null);
  drawing(String(data.number[i]), place);
}
