// Clicks and keys everywhere.

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
  if (button && !button.closest("svg[data-chart]")) open(button.dataset.trial);
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
