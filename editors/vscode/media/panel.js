// Draws what the extension sends.  No text of a project is among it.
(() => {
  const vscode = acquireVsCodeApi();
  const byId = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";
  const HEIGHT = 120;
  /** Pixels on the left that belong to the labels, which the curve must not cross. */
  const GUTTER = 64;
  let latencies = [];
  let latency;
  let latest = "";

  const perCent = (share) =>
    share === undefined || share === null ? "–" : `${Math.round(100 * share)} %`;
  const count = (n) => n.toLocaleString();
  const rounded = (ms) => (ms === undefined ? "–" : `${ms.toFixed(0)} ms`);
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
    const svg = byId("latency");
    if (latencies.length === 0) {
      svg.replaceChildren();
      byId("latency-text").textContent = "No suggestion yet.";
      return;
    }
    const width = svg.clientWidth;
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    const top = roundedUp(Math.max(...latencies));
    const y = (ms) => HEIGHT - 4 - ((HEIGHT - 20) * ms) / top;
    const step = latencies.length > 1 ? (width - GUTTER - 4) / (latencies.length - 1) : 0;
    const points = latencies.map((ms, idx) => [GUTTER + idx * step, y(ms)]);
    const grid = [0, top / 2, top].flatMap((ms) => [
      drawn("line", { class: "grid", x1: GUTTER, x2: width, y1: y(ms), y2: y(ms) }),
      drawn("text", { class: "label", x: GUTTER - 8, y: y(ms) + 4 }, `${count(ms)} ms`),
    ]);
    const [lastX, lastY] = points.at(-1);
    svg.replaceChildren(
      ...grid,
      drawn("polyline", { class: "line", points: points.map((point) => point.join()).join(" ") }),
      drawn("circle", { class: "latest", cx: lastX, cy: lastY, r: 3 }),
    );
    byId("latency-text").textContent =
      `From a request's arrival at the server to a new suggestion, the latest ` +
      `${count(latencies.length)}, oldest first: median ${rounded(latency.p50)}, ` +
      `95 of 100 within ${rounded(latency.p95)}, the latest ${rounded(latencies.at(-1))}.`;
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

  /** Write a list of figures: name, value, and a line that explains it where the name does not. */
  function drawFigures(list, rows) {
    byId(list).replaceChildren(
      ...rows.map(([name, value, remark]) =>
        element(
          "div",
          {},
          element("dt", { textContent: name }),
          element("dd", { textContent: value }),
          ...(remark ? [element("dd", { className: "remark", textContent: remark })] : []),
        ),
      ),
    );
  }

  function drawAll(stats, figures) {
    drawFigures("figures", [
      ["Accepted", figures.accepted],
      ["Accepted in part", count(stats.n_partially_accepted)],
      ["Latency, median", rounded(figures.latency?.p50)],
      ["Characters accepted", figures.charsAccepted],
      ["Characters typed over", figures.charsTypedOver],
    ]);
    drawFigures("details", [
      [
        "Answered without the model",
        count(stats.n_memory),
        "Requests while you typed through a suggestion, which got the rest of it at once.",
      ],
      [
        "Time in the engine, median",
        rounded(figures.engineMs),
        "Where the model ran for the suggestion, without waiting for the next key and the way there.",
      ],
      [
        "Tokens per pass",
        figures.tokensPerPass?.toFixed(2) ?? "–",
        "What one run of the model gave; 1.00 without speculation.",
      ],
      [
        "Prompt reused",
        perCent(figures.promptReuse),
        "The share of the text sent to the model that it still held from the request before.",
      ],
      [
        "Index",
        `${count(stats.index.n_files)} file${stats.index.n_files === 1 ? "" : "s"}` +
          (stats.index.building ? ", growing" : ""),
        `Files of the project that drafts come from: ${count(stats.index.n_tokens)} tokens.`,
      ],
    ]);
    drawDrafters(figures.drafters);
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
    byId("model").textContent = data.model;
    byId("all").hidden = !data.stats;
    byId("nothing").hidden = Boolean(data.stats);
    latencies = data.stats?.answer_ms ?? [];
    latency = data.figures?.latency;
    drawLatency();
    if (data.stats) drawAll(data.stats, data.figures);
  });
  byId("help").addEventListener("click", () => vscode.postMessage("help"));
  vscode.postMessage("figures");
})();
