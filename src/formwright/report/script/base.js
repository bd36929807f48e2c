// What the others use: elements, numbers as the page writes them, and the data of the page.

const PAGE = 25; // rows of the table at once
const REACH = 28; // pixels from a point within which it is meant
const $ = (query, root = document) => root.querySelector(query);
const $$ = (query, root = document) => [...root.querySelectorAll(query)];
const SVG = "http://www.w3.org/2000/svg";

function make(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}
function draw(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}
function filled(element, attributes, children) {
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
const wishes = new Map(data.objectives); // name to "min" or "max"
column.set("", data.number); // an axis may be the number of the trial
title.set("", "trial");
