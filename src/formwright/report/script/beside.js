// Two architectures side by side, with what differs marked: values, layers, decisions.

let layers = null; // inflated when two are first compared
const FOLD = 3; // equal layers in a row above which they are said in one line
const WORDS = 500; // of a notation that are compared

function subject(key) {
  if (key === "baseline") {
    return data.baseline && { key, title: data.baseline.name, notation: data.baseline.notation,
      value: (name) => data.baseline.values[name] ?? null, decision: () => null, steps: data.baseline.values.steps ?? null };
  }
  const i = row.get(Number(key));
  return i === undefined || key === "" ? null : { key: String(key), title: "Trial " + key, notation: data.notation[i],
    value: (name) => column.get(name)[i], decision: (d) => data.choices[d][i],
    steps: column.get("steps")?.[i] ?? data.steps[i] };
}

function picker(number) {
  const known = [...(data.baseline ? ["baseline"] : []), ...data.number.filter((_, i) => data.front[i]).slice(0, 60).map(String)]
    .filter((key) => key !== String(number));
  const field = make("input", { list: "others", "aria-label": "another trial: its number, or baseline", size: 12,
    placeholder: known[0] ?? "number", value: known[0] ?? "" });
  const button = make("button", { type: "button", class: "press" }, "Compare");
  const start = () => {
    if (subject(field.value.trim())) compare(String(number), field.value.trim());
    else field.setCustomValidity("This page has no such trial."), field.reportValidity();
  };
  field.addEventListener("input", () => field.setCustomValidity(""));
  field.addEventListener("keydown", (event) => { if (event.key === "Enter") start(); });
  button.addEventListener("click", start);
  return make("div", { class: "controls picker" }, make("label", {}, "beside trial or baseline ", field), button,
    make("datalist", { id: "others" }, ...known.map((key) => make("option", { value: key }))));
}

async function compare(a, b) {
  const [one, two] = [subject(a), subject(b)];
  if (!one || !two) return;
  hide();
  const places = [one, two].map(() => make("div", { class: "drawing" }));
  const swap = make("button", { type: "button", class: "press" }, "Swap");
  swap.addEventListener("click", () => compare(b, a));
  const back = make("button", { type: "button", class: "link" }, "back to " + one.title.toLowerCase());
  back.addEventListener("click", () => open(a));
  layers ??= inflated("layer-data");
  const known = await layers;
  const built = known.trials[one.key] && known.trials[two.key]
    ? besideLayers(one, two, known) : besideWords(one, two);
  dialog(`${one.title} and ${two.title}`, true,
    make("p", { class: "controls" }, one.key === "baseline" ? null : back, swap),
    heading("Values"), unequal(one, two), besideValues(one, two),
    heading("Layers"), built,
    heading("Drawings"), make("div", { class: "twin" }, ...places),
    ...besideDecisions(one, two));
  places.forEach((place, k) => drawing([one, two][k].key, place));
}

// Qualities after trainings of other lengths say nothing of which model is better.
function unequal(one, two) {
  const [x, y] = [one.steps, two.steps];
  return x === null || y === null || x === y ? null : make("p", { class: "failed" },
    `They were trained for ${figure(x)} and ${figure(y)} steps: their qualities cannot be compared.`);
}

function besideTable(one, two, rows, last) {
  const head = ["", one.title, two.title, ...(last ? [last] : [])].map((words) => make("th", { scope: "col" }, words));
  return make("div", { class: "scroll" }, make("table", { class: "figures beside" },
    make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows)));
}

function besideValues(one, two) {
  const rows = data.names.filter((name) => !/_(low|high)$/.test(name)).flatMap((name) => {
    const [x, y] = [one.value(name), two.value(name)];
    if (x === null || y === null) return [];
    const ends = [one, two].map((side) => ["_low", "_high"].map((end) => (column.has(name + end) ? side.value(name + end) : null)));
    const known = ends.every(([low, high]) => low !== null && high !== null && low < high);
    const apart = known && (ends[0][1] < ends[1][0] || ends[1][1] < ends[0][0]);
    const share = x ? (y / x - 1) * 100 : null;
    const far = x === y ? "equal" : share === null ? "" : share > 200 ? `${figure(y / x, 3)} times as much`
      : `${Math.abs(share).toFixed(1)}% ${y > x ? "more" : "less"}`;
    const worth = x === y || !known ? "" : apart ? ", outside both intervals" : ", within the intervals";
    return [make("tr", {}, make("th", { scope: "row" }, title.get(name)),
      make("td", {}, figure(x)), make("td", {}, figure(y)), make("td", {}, far + worth))];
  });
  return besideTable(one, two, rows, two.title + " has");
}

// Pairs of places with the fewest edits, as arch/diff.py finds them; -1 stands for nothing.
function aligned(a, b, price) {
  const cost = Array.from({ length: a.length + 1 }, (_, i) => Array.from({ length: b.length + 1 }, (_, j) => a.length - i + b.length - j));
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      cost[i][j] = Math.min(cost[i + 1][j + 1] + price(a[i], b[j]), cost[i + 1][j] + 1, cost[i][j + 1] + 1);
    }
  }
  const found = [];
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    const both = i < a.length && j < b.length;
    if (both && cost[i][j] === cost[i + 1][j + 1] + price(a[i], b[j])) found.push([i++, j++]);
    else if (i < a.length && cost[i][j] === cost[i + 1][j] + 1) found.push([i++, -1]);
    else found.push([-1, j++]);
  }
  return found;
}

function besideLayers(one, two, known) {
  const sides = [one, two].map((side) => known.trials[side.key]);
  const block = (n) => known.blocks[n];
  const rows = [];
  const line = (name, x, y) => {
    const kind = x === y ? "same" : x === "" ? "added" : y === "" ? "removed" : "changed";
    const words = { same: "", added: "only in the second", removed: "only in the first", changed: "differs" }[kind];
    rows.push(make("tr", { class: kind }, make("th", { scope: "row" }, name),
      make("td", {}, x), make("td", {}, y), make("td", {}, words)));
  };
  for (let f = 0; f < Math.max(sides[0].facts.length, sides[1].facts.length); f++) {
    const [x, y] = sides.map((side) => side.facts[f] ?? ["", ""]);
    line(x[0] || y[0], x[1], y[1]);
  }
  const price = (x, y) => (x === y ? 0 : block(x)[0] === block(y)[0] ? 1 : 2);
  for (let s = 0; s < Math.max(sides[0].stacks.length, sides[1].stacks.length); s++) {
    const [a, b] = sides.map((side) => side.stacks[s] ?? []);
    const steps = aligned(a, b, price);
    for (let k = 0; k < steps.length; k++) {
      const [i, j] = steps[k];
      let last = k;
      while (last < steps.length && steps[last][0] >= 0 && steps[last][1] >= 0 && a[steps[last][0]] === b[steps[last][1]]) last++;
      if (last - k > FOLD) {
        rows.push(make("tr", { class: "same" }, make("th", { scope: "row" }, `layers ${steps[k][1]} to ${steps[last - 1][1]}`),
          make("td", { colspan: 3 }, `${last - k} layers that are the same in both`)));
        k = last - 1;
      } else {
        line(i === j ? `layer ${i}` : `layer ${i >= 0 ? i : "–"} / ${j >= 0 ? j : "–"}`, i >= 0 ? block(a[i])[1] : "", j >= 0 ? block(b[j])[1] : "");
      }
    }
  }
  return besideTable(one, two, rows, "");
}

// Where a page holds no layers of one of them: their notations, word by word.
function besideWords(one, two) {
  const [a, b] = [one, two].map((side) => side.notation.split(/(?<=[\s(),])|(?=[\s(),])/).slice(0, WORDS));
  if (!one.notation || !two.notation) return make("p", { class: "quiet" }, "No notation of both is known.");
  const price = (x, y) => (x === y ? 0 : 2);
  const sides = [[], []];
  for (const [i, j] of aligned(a, b, price)) {
    const same = i >= 0 && j >= 0 && a[i] === b[j];
    if (i >= 0) sides[0].push(same ? a[i] : make("mark", {}, a[i]));
    if (j >= 0) sides[1].push(same ? b[j] : make("mark", {}, b[j]));
  }
  return make("div", { class: "twin" }, ...sides.map((words, k) => make("div", {},
    make("p", { class: "quiet" }, [one, two][k].title), make("div", { class: "notation" }, make("code", {}, ...words)))));
}

function besideDecisions(one, two) {
  if (one.key === "baseline" || two.key === "baseline") return [];
  const rows = data.decisions.flatMap((name, d) => {
    const [x, y] = [said(name, one.decision(d)), said(name, two.decision(d))];
    return x === y ? [] : [make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, x || "not in play"), make("td", {}, y || "not in play"))];
  });
  return [heading(`Decisions that differ (${rows.length})`), rows.length ? besideTable(one, two, rows) : make("p", { class: "quiet" }, "None.")];
}
