// Draws what the extension sends.  No text of a project is among it.
(() => {
  const vscode = acquireVsCodeApi();
  const byId = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const HEIGHT = 120;
  let latencies = [];
  let latest = "";

  const perCent = (share) =>
    share === undefined || share === null ? "–" : `${Math.round(100 * share)} %`;
  const count = (n) => n.toLocaleString();
  const element = (name, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const drawn = (name, attributes, text = "") => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };

  /** A scale that ends at 1, 2 or 5 times a power of ten. */
  function roundedUp(ms) {
    const power = 10 ** Math.floor(Math.log10(Math.max(ms, 1)));
    return [1, 2, 5, 10].map((digit) => digit * power).find((end) => end >= ms);
  }

  function drawLatency() {
    if (latencies.length === 0) return;
    const svg = byId("latency");
    const width = svg.clientWidth;
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const top = roundedUp(Math.max(...latencies));
    const y = (ms) => HEIGHT - 4 - ((HEIGHT - 20) * ms) / top;
    const step = latencies.length > 1 ? (width - 8) / (latencies.length - 1) : 0;
    const points = latencies.map((ms, idx) => [4 + idx * step, y(ms)]);
    const grid = [0, top / 2, top].flatMap((ms) => [
      drawn("line", { class: "grid", x1: 0, x2: width, y1: y(ms), y2: y(ms) }),
      ...(ms > 0 ? [drawn("text", { class: "label", x: 0, y: y(ms) - 3 }, `${ms} ms`)] : []),
    ]);
    const [lastX, lastY] = points.at(-1);
    svg.replaceChildren(
      ...grid,
      drawn("polyline", { class: "line", points: points.map((point) => point.join()).join(" ") }),
      drawn("circle", { class: "latest", cx: lastX, cy: lastY, r: 3 }),
    );
    const sorted = [...latencies].sort((a, b) => a - b);
    const rank = (share) => sorted[Math.ceil(share * sorted.length) - 1].toFixed(0);
    byId("latency-text").textContent =
      `The latest ${latencies.length} suggestions, oldest first: median ${rank(0.5)} ms, ` +
      `95 of 100 within ${rank(0.95)} ms, the latest ${latencies.at(-1).toFixed(0)} ms.`;
  }

  function drawDrafters(drafters) {
    const rows = drafters.map(({ name, acceptance, nDrafted }) => {
      const meter = element("meter", { value: acceptance });
      meter.setAttribute("aria-hidden", "true"); // the figure beside it says the same
      return element(
        "tr",
        {},
        element("th", { scope: "row", textContent: name }),
        element("td", {}, element("div", { className: "share" }, meter, perCent(acceptance))),
        element("td", { className: "number", textContent: count(nDrafted) }),
      );
    });
    const none = element(
      "tr",
      {},
      element("td", {
        colSpan: 3,
        className: "none",
        textContent: "Nothing has been drafted yet.",
      }),
    );
    byId("drafters").replaceChildren(...(rows.length > 0 ? rows : [none]));
  }

  function drawFigures(stats, figures) {
    const pairs = [
      ["Tokens per pass", figures.tokensPerPass?.toFixed(2) ?? "–"],
      ["Prompt reused (KV)", perCent(figures.promptReuse)],
      ["From memory", count(stats.n_memory)],
      ["Shown", count(stats.n_shown)],
      ["Accepted", perCent(figures.acceptanceRate)],
      ["Accepted in full", count(stats.n_accepted_items)],
      ["Accepted in part", count(stats.n_partially_accepted)],
      ["Characters accepted", count(stats.n_chars_accepted)],
      ["Index, files", count(stats.index.n_files)],
      ["Index, tokens", count(stats.index.n_tokens) + (stats.index.building ? " …" : "")],
    ];
    byId("figures").replaceChildren(
      ...pairs.map(([name, value]) =>
        element(
          "div",
          {},
          element("dt", { textContent: name }),
          element("dd", { textContent: value }),
        ),
      ),
    );
  }

  addEventListener("resize", drawLatency);
  addEventListener("message", ({ data }) => {
    // What stays as it is stays in place: a screen reader keeps its position, the user a selection.
    const sent = JSON.stringify(data);
    if (sent === latest) return;
    latest = sent;
    // Only a change is written, since a screen reader says it.
    if (byId("state").textContent !== data.words) byId("state").textContent = data.words;
    byId("state").classList.toggle("problem", data.isProblem);
    latencies = data.latencies;
    drawLatency();
    if (data.stats) {
      byId("model").textContent = data.stats.model;
      drawDrafters(data.figures.drafters);
      drawFigures(data.stats, data.figures);
    }
  });
  vscode.postMessage("ready");
})();
