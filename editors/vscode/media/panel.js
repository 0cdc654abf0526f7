// Draws what the extension sends.  No text of a project is among it.
(() => {
  const vscode = acquireVsCodeApi();
  const byId = (id) => document.getElementById(id);
  const SVG = "http://www.w3.org/2000/svg";

  const perCent = (share) =>
    share === undefined || share === null ? "–" : `${Math.round(100 * share)} %`;
  const count = (n) => n.toLocaleString();

  function drawLatency(latencies) {
    const svg = byId("latency");
    svg.replaceChildren();
    if (latencies.length === 0) return;
    const [width, height] = [400, 120];
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.setAttribute("preserveAspectRatio", "none");
    const top = Math.max(...latencies, 1);
    const axis = document.createElementNS(SVG, "line");
    for (const [name, value] of [
      ["x1", 0],
      ["x2", width],
      ["y1", height - 1],
      ["y2", height - 1],
    ])
      axis.setAttribute(name, value);
    axis.setAttribute("class", "axis");
    const line = document.createElementNS(SVG, "polyline");
    const step = latencies.length > 1 ? width / (latencies.length - 1) : 0;
    const y = (ms) => height - 2 - ((height - 6) * ms) / top;
    line.setAttribute("points", latencies.map((ms, idx) => `${idx * step},${y(ms)}`).join(" "));
    line.setAttribute("class", "line");
    svg.append(axis, line);
    const sorted = [...latencies].sort((a, b) => a - b);
    const rank = (p) =>
      sorted[Math.min(sorted.length - 1, Math.ceil(p * sorted.length) - 1)].toFixed(0);
    byId("latency-text").textContent =
      `The latest ${latencies.length} suggestions, in order: median ${rank(0.5)} ms, ` +
      `95 of 100 within ${rank(0.95)} ms, highest ${top.toFixed(0)} ms, latest ${latencies.at(-1).toFixed(0)} ms.`;
  }

  function drawDrafters(drafters) {
    const rows = drafters.map(({ name, acceptance, nDrafted }) => {
      const row = document.createElement("tr");
      const title = document.createElement("th");
      title.scope = "row";
      title.textContent = name;
      const meter = document.createElement("meter");
      meter.value = acceptance;
      meter.setAttribute("aria-label", `${name}: ${perCent(acceptance)}`);
      const share = document.createElement("td");
      share.append(meter, ` ${perCent(acceptance)}`);
      const drafted = document.createElement("td");
      drafted.textContent = count(nDrafted);
      row.append(title, share, drafted);
      return row;
    });
    byId("drafters").replaceChildren(...rows);
  }

  function drawFigures(stats, figures) {
    const pairs = [
      ["tokens per target pass", figures.tokensPerPass?.toFixed(2) ?? "–"],
      ["prompt tokens reused", perCent(figures.promptReuse)],
      ["suggestions shown", count(stats.n_shown)],
      ["accepted", perCent(figures.acceptanceRate)],
      ["characters accepted", count(stats.n_chars_accepted)],
      ["index, files", count(stats.index.n_files)],
      ["index, tokens", count(stats.index.n_tokens) + (stats.index.building ? " …" : "")],
    ];
    byId("figures").replaceChildren(
      ...pairs.map(([name, value]) => {
        const group = document.createElement("div");
        const term = document.createElement("dt");
        term.textContent = name;
        const definition = document.createElement("dd");
        definition.textContent = value;
        group.append(term, definition);
        return group;
      }),
    );
  }

  addEventListener("message", ({ data }) => {
    const said = data.message ? `${data.state}: ${data.message}` : data.state;
    if (byId("state").textContent !== said) byId("state").textContent = said;
    drawLatency(data.latencies);
    if (data.stats) {
      byId("model").textContent = data.stats.model;
      drawDrafters(data.figures.drafters);
      drawFigures(data.stats, data.figures);
    }
  });
  vscode.postMessage("ready");
})();
