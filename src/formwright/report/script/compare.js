// Groups of runs can be hidden; a line says what it is.

const $ = (query, root = document) => root.querySelector(query);
const $$ = (query, root = document) => [...root.querySelectorAll(query)];

$$("[data-toggle]").forEach((box) => box.addEventListener("change", () => {
  $$(`[data-group="${CSS.escape(box.dataset.toggle)}"]`).forEach((shape) => shape.classList.toggle("away", !box.checked));
}));

const tip = $("#tip");
$$("[data-tip]").forEach((shape) => {
  shape.addEventListener("pointermove", (event) => {
    tip.textContent = shape.dataset.tip;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(8, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
    tip.style.top = event.clientY + 18 + "px";
  });
  shape.addEventListener("pointerleave", () => { tip.hidden = true; });
});
document.documentElement.dataset.ready = "yes";
