// What the pages need beside htmx: charts, copy buttons, sliders. Everything here is a convenience: each page
// also works without it. Nothing is evaluated: htmx's constructors of functions are replaced by one that refuses,
// and charts run through vega-interpreter.
"use strict";
(() => {
  document.documentElement.classList.add("scripted"); // charts have no place where they cannot be drawn
  const here = new URL(document.currentScript.src);

  function refuse() {
    throw new Error("This page evaluates no code.");
  }
  htmx.registerExtension("no-eval", { init: (api) => { api.initSecurity(null, refuse, refuse); } });

  function say(text) {
    document.getElementById("spoken").textContent = text;
  }

  // ---- charts ----------------------------------------------------------------------------------------------

  // The colours of sfumato.viz on white, and what stands for each on a dark page.
  const DARK = {
    "#1F2933": "#ECE7DF", "#5F6B76": "#ADA99F", "#E4E9EE": "#33373B", "#EDF1F4": "#34383C", white: "#1D2023",
  };
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const LIBRARIES = ["vega.min.js", "vega-lite.min.js", "vega-interpreter.js"];
  let libraries = null;

  function load(name) {
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      script.src = new URL(`vendor/${name}`, here).href;
      script.onload = resolve;
      script.onerror = reject;
      document.head.append(script);
    });
  }

  async function loadLibraries() {
    for (const name of LIBRARIES) await load(name);
  }

  function recolour(value) {
    if (typeof value === "string") return dark.matches ? DARK[value] ?? value : value;
    if (Array.isArray(value)) return value.map(recolour);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, recolour(inner)]));
  }

  // The caption of the figure says the title, and the page decides the width.
  function fit(spec, width) {
    const { title, ...shown } = recolour(spec);
    shown.config = { ...shown.config, background: "transparent", padding: { left: 2, right: 8, top: 4, bottom: 4 } };
    // Beside each other, the names in a legend are cut off on a phone.
    if (width < 480) shown.config.legend = { ...shown.config.legend, columns: 1 };
    if (typeof shown.width === "number") {
      // Charts that are as wide as sfumato.viz makes them are as wide as the page; small ones stay small.
      shown.width = shown.width >= 640 ? width : Math.min(shown.width + 120, width);
      shown.autosize = { type: "fit-x", contains: "padding" };
    }
    return shown;
  }

  async function draw(place) {
    libraries ??= loadLibraries();
    await libraries;
    const width = place.clientWidth;
    if (!width || !place.isConnected) return;
    place.drawn?.finalize();
    const label = place.getAttribute("aria-label");
    const spec = fit(JSON.parse(place.dataset.spec), width);
    const compiled = vegaLite.compile(spec, { logger: vega.logger(vega.Error) }).spec;
    const runtime = vega.parse(compiled, null, { ast: true });
    place.drawn = new vega.View(runtime, {
      expr: vegaInterpreter.expressionInterpreter, renderer: "svg", container: place, hover: true, logLevel: vega.Error,
    });
    await place.drawn.runAsync();
    // The figure has a label and a table beside it; a screen reader would only stumble over hundreds of marks.
    place.querySelector("svg")?.setAttribute("aria-hidden", "true");
    // Vega gives the place another role, and a label of its own.
    place.setAttribute("role", "img");
    place.removeAttribute("aria-roledescription");
    place.setAttribute("aria-label", label);
    place.drawnWidth = width;
    place.dataset.drawn = "yes";
  }

  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) if (target.clientWidth !== target.drawnWidth) draw(target);
  });

  function prepareCharts(root) {
    for (const place of root.querySelectorAll("[data-spec]")) sizes.observe(place);
  }
  dark.addEventListener("change", () => {
    for (const place of document.querySelectorAll("[data-spec]")) draw(place);
  });

  // ---- copy buttons ----------------------------------------------------------------------------------------

  function prepareCopies(root) {
    for (const button of root.querySelectorAll("[data-copy]")) button.hidden = false;
  }
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
      say("Copied.");
      button.classList.add("done");
    } catch {
      say("The browser did not allow copying. Select the text instead.");
    }
  });

  // ---- sliders: a range on a logarithmic scale beside a field of numbers, which alone is sent ---------------------

  function place(slider, value) {
    const low = Math.log(Number(slider.dataset.low)), high = Math.log(Number(slider.dataset.high));
    slider.value = String(Math.round(1000 * (Math.log(value) - low) / (high - low)));
  }

  function prepareSliders(root) {
    for (const slider of root.querySelectorAll("[data-slider-for]:not([data-ready])")) {
      slider.dataset.ready = "yes";
      const field = document.getElementById(slider.dataset.sliderFor);
      slider.closest("[hidden]")?.removeAttribute("hidden");
      place(slider, Number(field.value) || Number(slider.dataset.low));
      slider.addEventListener("input", () => {
        const low = Math.log(Number(slider.dataset.low)), high = Math.log(Number(slider.dataset.high));
        const value = Math.exp(low + (high - low) * Number(slider.value) / 1000);
        field.value = String(Number(value.toPrecision(2)));
        slider.setAttribute("aria-valuetext", `ε = ${field.value}`);
        field.dispatchEvent(new Event("input", { bubbles: true }));
      });
      field.addEventListener("input", (event) => {
        if (event.isTrusted && Number(field.value) > 0) place(slider, Number(field.value));
      });
    }
  }

  // ---- pages and what htmx puts into them --------------------------------------------------------------------

  function prepare(root) {
    prepareCharts(root);
    prepareCopies(root);
    prepareSliders(root);
  }
  prepare(document);
  new MutationObserver((changes) => {
    for (const change of changes) for (const node of change.addedNodes) {
      if (node instanceof HTMLElement && !node.closest("[data-spec]")) prepare(node.parentElement ?? node);
    }
  }).observe(document.body, { childList: true, subtree: true });

  // A page that was restored from the browser's memory may hold an old form: it is loaded anew.
  window.addEventListener("pageshow", (event) => { if (event.persisted) window.location.reload(); });
})();
