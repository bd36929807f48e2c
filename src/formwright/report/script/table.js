// All trials in a table that sorts, filters and turns pages.

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
