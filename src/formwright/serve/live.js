"use strict";
// Follows the runs: the list is replaced when it has changed; a report is loaded into a second
// frame behind the first, and takes its place when it is ready and nobody is in the middle of
// something. What a run holds is only ever set as text.
(() => {
  const $ = (query, root = document) => root.querySelector(query);
  const $$ = (query, root = document) => [...root.querySelectorAll(query)];
  const LEAST = 2000; // milliseconds between two reports
  const CALM = 8; // and so many times what the last one kept the browser busy
  const READY = 20000; // milliseconds until a report that never says that it is ready is shown
  const pause = (ms) => new Promise((done) => setTimeout(done, ms));

  function follow(address, heard) {
    const source = new EventSource(address);
    source.onmessage = (event) => { $("#gone").hidden = true; heard(JSON.parse(event.data)); };
    source.onopen = () => { $("#gone").hidden = true; };
    source.onerror = () => {
      $("#gone").hidden = false;
      if (source.readyState === EventSource.CLOSED) setTimeout(() => follow(address, heard), 5000);
    };
    addEventListener("pagehide", () => source.close());
  }

  // ------------------------------------------------------------------------------- the list

  async function listed() {
    let shown = null;
    let waiting = false;
    follow("/events", async ({ version }) => {
      const first = shown === null;
      shown = version;
      if (first || waiting) return; // the page itself is the first
      waiting = true;
      await pause(LEAST);
      waiting = false;
      const answer = await fetch("/", { cache: "no-store" });
      if (!answer.ok) return;
      // our own page, every word of it escaped by the server
      const found = new DOMParser().parseFromString(await answer.text(), "text/html");
      const focused = document.activeElement?.getAttribute?.("href");
      $("#list").replaceChildren(...$("#list", found).childNodes);
      if (focused) $$("#list a").find((link) => link.getAttribute("href") === focused)?.focus();
    });
  }

  // -------------------------------------------------------------------------------- one run

  // Whether the reader is in the middle of something that another page would take away.
  function busy(frame) {
    const inside = frame.contentDocument;
    const chosen = frame.contentWindow.getSelection();
    return Boolean($("dialog[open]", inside)) || (chosen && !chosen.isCollapsed) || frame.held === true;
  }

  // What the reader has set in one page, set in the next: fields, what is opened, where it stands.
  function carry(before, after) {
    const [old, fresh] = [before.contentDocument, after.contentDocument];
    const key = (element) => element.id || element.name || element.getAttribute("aria-label")
      || Object.entries(element.dataset).join() || (element.textContent || "").trim().slice(0, 80);
    const alike = (query) => {
      const known = new Map($$(query, fresh).map((element) => [key(element), element]));
      return $$(query, old).map((element) => [element, known.get(key(element))]).filter(([, b]) => b);
    };
    for (const [a, b] of alike("input, select, textarea")) {
      if (a.value === b.value && a.checked === b.checked) continue;
      b.value = a.value;
      if ("checked" in a) b.checked = a.checked;
      for (const kind of ["input", "change"]) b.dispatchEvent(new Event(kind, { bubbles: true }));
    }
    for (const [a, b] of alike("details")) if (a.open !== b.open) b.open = a.open;
    for (const [a, b] of alike("[aria-pressed], [role=tab]")) {
      const on = (e) => e.getAttribute("aria-pressed") === "true" || e.getAttribute("aria-selected") === "true";
      if (on(a) && !on(b)) b.click();
    }
    const focused = old.activeElement;
    if (focused && focused !== old.body && document.activeElement === before) {
      alike(focused.tagName.toLowerCase()).find(([a]) => a === focused)?.[1].focus({ preventScroll: true });
    }
    const { scrollX: left, scrollY: top } = before.contentWindow;
    after.contentWindow.scrollTo({ left, top, behavior: "instant" }); // the report scrolls smoothly
  }

  async function loaded(address, version, title) {
    const frame = document.createElement("iframe");
    // not sandboxed: its own policy lets it run one script and reach nothing, and its place is read
    frame.title = title;
    frame.src = address + "?v=" + version;
    const done = new Promise((good) => frame.addEventListener("load", good, { once: true }));
    $("#frames").append(frame);
    await done;
    const began = performance.now();
    while (frame.contentDocument?.documentElement.dataset.ready !== "yes" && performance.now() - began < READY) {
      if (!frame.contentDocument || !$("script", frame.contentDocument)) break; // words of the server
      await pause(50);
    }
    const clock = frame.contentWindow?.performance;
    const came = clock?.getEntriesByType("navigation")[0]?.responseEnd ?? 0;
    frame.heavy = clock ? clock.now() - came : 0; // how long it kept the browser busy
    for (const kind of ["pointerdown", "pointerup", "pointercancel"]) {
      frame.contentDocument?.addEventListener(kind, () => { frame.held = kind === "pointerdown"; }, true);
    }
    return frame;
  }

  function followed(run) {
    const title = "Report of " + $("h1").textContent;
    let [wanted, shown, frame, working, calm] = ["", "", null, false, 0];

    const free = () => !document.hidden && !(frame && busy(frame));
    async function turn() {
      if (working) return;
      working = true;
      try {
        while (wanted !== shown) {
          while (!free() || performance.now() < calm) {
            $("#note").textContent = frame && !document.hidden && busy(frame) ? "newer results wait until you are done" : "";
            await pause(100);
          }
          const version = wanted;
          const next = await loaded("/report/" + run, version, title);
          if (frame && !(next.contentDocument && $("main", next.contentDocument))) {
            next.remove(); // words of the server in place of a report: what is shown stays
            calm = performance.now() + 5000;
            continue;
          }
          while (frame && !free()) await pause(100);
          if (frame) carry(frame, next);
          next.classList.add("shown");
          frame?.remove();
          frame = next;
          shown = version;
          document.body.dataset.shown = version;
          calm = performance.now() + Math.max(LEAST, CALM * next.heavy);
          $("#note").textContent = "";
        }
      } finally {
        working = false;
      }
    }
    follow("/events/" + run, (news) => {
      $("#status").textContent = news.status;
      $("#try").hidden = news.model === null;
      if (news.model) $("#second").hidden = !news.model.two;
      wanted = news.version;
      turn();
    });
    asking(run);
  }

  // ------------------------------------------------------------------------------ the model

  function asking(run) {
    const [form, answer, button] = [$("#ask"), $("#answer"), $("#ask button")];
    function say(words, wrong = false) {
      answer.textContent = words;
      answer.classList.toggle("wrong", wrong);
    }
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (button.disabled) return;
      button.disabled = true;
      say("The model reads; the first time it is loaded, which takes a few seconds.");
      const question = { text: $("#text").value };
      if (!$("#second").hidden) question.second = $("#second").value;
      try {
        const sent = await fetch("/try/" + run, {
          method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(question),
        });
        const found = await sent.json();
        const others = (found.likeliest ?? []).slice(1, 4)
          .map(([label, share]) => `${label} (${share.toFixed(3)})`).join(", ");
        const words = found.error ?? (found.answer || "(nothing)") + (others ? "\nthen " + others : "")
          + "\nin " + found.ms.toPrecision(3) + " ms on the machine that serves this page";
        say(words, !sent.ok);
      } catch {
        say("The server does not answer; try again.", true);
      } finally {
        button.disabled = false;
      }
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
    });
  }

  if (document.body.dataset.page === "list") listed();
  else followed(document.body.dataset.run);
})();
