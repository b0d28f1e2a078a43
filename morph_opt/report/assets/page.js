"use strict";
// Everything that moves on the page: unpacks the documents, draws what is in sight, and ties
// charts, groups and the table of jobs together. No name of a job ever becomes markup.
(async () => {
  const $ = (selector, within = document) => within.querySelector(selector);
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
  const make = (tag, text, attributes = {}) => {
    const found = document.createElement(tag);
    if (text !== undefined) found.textContent = text;
    for (const [name, value] of Object.entries(attributes)) found.setAttribute(name, value);
    return found;
  };

  async function unpack(id) {
    const packed = Uint8Array.from(atob($("#" + id).textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  }

  const trouble = $("#trouble");
  try {
    const script = make("script");
    script.textContent = await unpack("bokeh");
    document.head.append(script);
    Bokeh.set_log_level("warn");
  } catch (error) {
    trouble.textContent = "Charts cannot be drawn by this browser (it is older than 2023?); tables and figures are below.";
    trouble.hidden = false;
    return;
  }

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const documents = new Map(); // name -> Bokeh document, once it is drawn

  function dress(doc) {
    const of = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const text = of("--text"), line = of("--axis"), ground = of("--back");
    for (const model of doc.all_models ?? doc._all_models.values()) {
      const type = model.type.split(".").pop();
      if (/Axis$/.test(type)) model.setv({ axis_label_text_color: text, major_label_text_color: text, axis_line_color: line, major_tick_line_color: line, minor_tick_line_color: null });
      if (type === "Legend") model.setv({ label_text_color: text, background_fill_color: ground, border_line_color: null });
      if (type === "Grid") model.setv({ grid_line_color: of("--grid") });
      if (type === "Figure" || type === "Plot") model.setv({ background_fill_color: null, border_fill_color: null, outline_line_color: line });
      if (type === "GlyphRenderer" && model.name === "labels") model.glyph.setv({ text_color: text, background_fill_color: ground });
      if (type === "GlyphRenderer" && model.name === "startups") model.glyph.setv({ fill_color: ground });
    }
  }
  dark.addEventListener("change", () => { for (const doc of documents.values()) dress(doc); });

  const number = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
  const oneDigit = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
  const twoDigits = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
  const clock = (s) => twoDigits.format(s / 3600) + " h";
  const ENDS = ["complete", "moved or replanned", "stopped by the policy", "stopped by a node failure", "end of the replay"];

  // Plain numbers at logarithmic axes, as many as have room: of the choices the first that leaves
  // enough pixels between two of them.
  const STEPS = [[1, 1.5, 2, 3, 4, 5, 7], [1, 2, 5], [1, 3], [1]];
  function ticksOf(low, high, pixels, apart) {
    const from = Math.floor(Math.log10(low)), to = Math.ceil(Math.log10(high));
    let found = [];
    for (let every = 1; every < 20; every++) {
      for (const steps of every === 1 ? STEPS : [[1]]) {
        found = [];
        for (let power = from; power <= to; power++) {
          if (power % every === 0) for (const step of steps) found.push(Number(`${step}e${power}`));
        }
        found = found.filter((value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9));
        const room = found.slice(1).map((value, k) => pixels * Math.log(value / found[k]) / Math.log(high / low));
        if (room.every((one) => one >= apart)) return found;
      }
    }
    return found;
  }
  function retick(doc) {
    for (const chart of doc.all_roots) for (const [sides, along] of [[["below", "above"], "x"], [["left", "right"], "y"]]) {
      const axes = sides.flatMap((side) => chart[side] ?? []).filter((axis) => axis.type.endsWith("LogAxis"));
      if (axes.length === 0) continue;
      const range = chart[along + "_range"];
      const update = () => {
        const size = along === "x" ? chart.inner_width : chart.inner_height;
        if (!(range.start > 0 && range.end > range.start && size > 0)) return;
        const ticks = ticksOf(range.start, range.end, size, along === "x" ? 52 : 20);
        for (const axis of axes) if (String(axis.ticker.ticks) !== String(ticks)) axis.ticker.ticks = ticks;
      };
      range.change.connect(update);
      for (const name of ["inner_width", "inner_height"]) chart.properties[name].change.connect(update);
      update();
    }
  }

  const model = (doc, name) => doc.get_model_by_name(name);
  const rendered = (doc, name) => doc.all_roots.flatMap((root) => root.renderers ?? []).find((r) => r.name === name)?.data_source;
  const named = (columns, name, row) => columns[name + "_names"][columns[name][row]];

  // Columns that the charts show and the file does not repeat per rectangle.
  function inflate(doc) {
    const jobs = model(doc, "jobs").data, segments = model(doc, "segments").data;
    const source = rendered(doc, "rectangles");
    if (source === undefined) return;
    const nodes = JSON.parse($("#nodes-" + doc.run).dataset.names);
    const data = source.data, rows = data.job.length;
    const column = (of) => Array.from({ length: rows }, (_, i) => of(i));
    source.data = {
      ...data,
      job_name: column((i) => jobs.name[data.job[i]]),
      model: column((i) => named(jobs, "model", data.job[i])),
      plan: column((i) => named(segments, "plan", data.segment[i])),
      gpus: column((i) => segments.gpus[data.segment[i]]),
      node_name: column((i) => nodes[data.node[i]]),
      from: column((i) => clock(segments.start_s[data.segment[i]])),
      to: column((i) => clock(segments.end_s[data.segment[i]])),
      why: column((i) => ENDS[segments.ended[data.segment[i]]]),
      beside: column((i) => data.partner[i] < 0 ? "no other job" : jobs.name[data.partner[i]]),
    };
    doc.rectangles = source;
  }

  function paint(doc, key) {
    const groups = model(doc, "jobs").data["group_" + key];
    const source = doc.rectangles;
    if (source === undefined || groups === undefined) return;
    source.data = { ...source.data, code: Uint8Array.from(source.data.job, (job) => groups[job]) };
  }

  // Above many nodes the jobs of single GPUs are drawn where few nodes are in sight; names of jobs
  // are where there is room for them.
  const roomy = matchMedia("(min-width: 700px)");
  function detail(doc) {
    const gantt = doc.all_roots.find((root) => root.name === "gantt");
    if (gantt === undefined || doc.rectangles === undefined) return;
    const of = (...names) => gantt.renderers.filter((r) => names.includes(r.name));
    const height = () => Math.abs(gantt.y_range.end - gantt.y_range.start), whole = height();
    const update = () => {
      const near = of("shares").length === 0 || height() <= Math.max(whole / 8, 64);
      for (const r of of("shares")) r.visible = !near;
      for (const r of of("rectangles", "startups")) r.visible = near;
      for (const r of of("labels")) r.visible = near && roomy.matches;
    };
    gantt.y_range.change.connect(update);
    roomy.addEventListener("change", update);
    update();
  }

  async function draw(name) {
    if (documents.has(name)) return documents.get(name);
    const holder = $("#" + name + "-data");
    // Without items nothing is drawn yet: columns are completed first.
    await Bokeh.embed.embed_items({ [name]: JSON.parse(await unpack(name + "-data")) }, []);
    const doc = Bokeh.documents.at(-1);
    documents.set(name, doc);
    doc.run = name.replace("run-", "");
    dress(doc);
    if (name.startsWith("run-")) {
      inflate(doc);
      paint(doc, $("#" + name + " .colours")?.value ?? "model");
      detail(doc);
    }
    const places = holder.dataset.roots.split(" ").map((root) => $(`[data-document="${name}"][data-root="${root}"]`));
    await Bokeh.embed.add_document_standalone(doc, document.body, places);
    retick(doc);
    return doc;
  }

  // ------------------------------------------------------------------ one run in sight

  let current = 0, doc, order = [], sorted = { key: null, down: false }, page = 0, chosen = -1;
  const SIZE = 25;
  const COLUMNS = [
    ["name", "job", (j, i) => j.name[i]],
    ["model", "model", (j, i) => named(j, "model", i)],
    ["tenant", "tenant", (j, i) => named(j, "tenant", i)],
    ["guaranteed", "promise", (j, i) => j.guaranteed[i] ? "guaranteed" : ""],
    ["gpus", "GPUs asked for", (j, i) => j.gpus[i]],
    ["plan", "last plan", (j, i) => named(j, "plan", i)],
    ["submission_s", "submitted (h)", (j, i) => j.submission_s[i] / 3600, twoDigits],
    ["queued_s", "queued (s)", (j, i) => j.queued_s[i], number],
    ["jct_s", "JCT (s)", (j, i) => j.jct_s[i], number],
    ["stretch", "stretch", (j, i) => j.stretch[i], twoDigits],
    ["restarts", "restarts", (j, i) => j.restarts[i], number],
    ["preemptions", "preemptions", (j, i) => j.preemptions[i], number],
    ["gpu_s_held", "GPU-hours", (j, i) => j.gpu_s_held[i] / 3600, oneDigit],
  ];
  const shownAs = ([, , of, form], jobs, i) => {
    const value = of(jobs, i);
    if (typeof value === "number" && Number.isNaN(value)) return "";
    return form === undefined ? String(value) : form.format(value);
  };

  const head = make("tr");
  for (const column of COLUMNS) {
    const cell = make("th", undefined, { scope: "col", "aria-sort": "none" }), press = make("button", column[1], { type: "button" });
    press.addEventListener("click", () => {
      sorted = { key: column[0], down: sorted.key === column[0] ? !sorted.down : false };
      arrange();
    });
    cell.append(press);
    head.append(cell);
  }
  $("#jobs thead").append(head);

  function arrange() {
    const jobs = model(doc, "jobs").data, words = $("#find").value.toLowerCase().trim();
    order = [...Array(jobs.name.length).keys()];
    if (words) order = order.filter((i) => COLUMNS.slice(0, 6).some(([, , of]) => String(of(jobs, i)).toLowerCase().includes(words)));
    const column = COLUMNS.find(([key]) => key === sorted.key);
    if (column !== undefined) {
      const values = order.map((i) => column[2](jobs, i)), sign = sorted.down ? -1 : 1;
      const rank = order.map((_, at) => at).sort((a, b) => {
        const x = values[a], y = values[b];
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y) || a - b;
        return sign * (x < y ? -1 : x > y ? 1 : 0) || a - b;
      });
      order = rank.map((at) => order[at]);
    }
    $$("#jobs thead th").forEach((cell, at) => cell.setAttribute("aria-sort", COLUMNS[at][0] !== sorted.key ? "none" : sorted.down ? "descending" : "ascending"));
    page = 0;
    fill();
  }

  function fill() {
    const jobs = model(doc, "jobs").data, body = $("#jobs tbody"), pages = Math.max(1, Math.ceil(order.length / SIZE));
    body.replaceChildren(...order.slice(page * SIZE, (page + 1) * SIZE).map((i) => {
      const row = make("tr");
      row.className = i === chosen ? "chosen" : "";
      for (const column of COLUMNS) {
        const text = shownAs(column, jobs, i), cell = make("td");
        if (column[0] === "name") {
          const press = make("button", text, { type: "button", title: text.slice(0, 200), dir: "auto" });
          press.addEventListener("click", () => choose(i, true));
          cell.append(press);
        } else cell.textContent = text.length > 60 ? text.slice(0, 57) + "..." : text;
        row.append(cell);
      }
      return row;
    }));
    $("#shown").textContent = `${number.format(order.length)} of ${number.format(jobs.name.length)} jobs`;
    $("#page").textContent = `Page ${page + 1} of ${pages}`;
    $("#earlier").disabled = page === 0;
    $("#later").disabled = page + 1 >= pages;
  }
  $("#find").addEventListener("input", arrange);
  $("#earlier").addEventListener("click", () => { page -= 1; fill(); });
  $("#later").addEventListener("click", () => { page += 1; fill(); });
  $("#csv").addEventListener("click", () => {
    const jobs = model(doc, "jobs").data, quote = (text) => /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    const lines = [COLUMNS.map((column) => column[1]), ...order.map((i) => COLUMNS.map(([, , of]) => { const v = of(jobs, i); return Number.isNaN(v) ? "" : String(v); }))];
    const link = make("a", undefined, { download: "jobs.csv", href: URL.createObjectURL(new Blob([lines.map((cells) => cells.map(quote).join(",")).join("\n") + "\n"], { type: "text/csv" })) });
    link.click();
    URL.revokeObjectURL(link.href);
  });

  // ------------------------------------------------------------------ one job

  let silent = false;
  function mark(test) {
    const source = doc.rectangles;
    if (source === undefined) return;
    silent = true;
    source.selected.indices = test === null ? [] : [...source.data.job.keys()].filter((row) => test(source.data, row));
    silent = false;
  }

  // Names in the chart: of the chosen job alone, which gets one wherever its largest rectangle is.
  const LONGEST = 14;
  function label(job) {
    const labels = rendered(doc, "labels"), source = doc.rectangles;
    if (labels === undefined || source === undefined) return;
    doc.names ??= labels.data;
    const plain = doc.names, rows = [...plain.text.keys()];
    if (job < 0) { labels.data = plain; return; }
    const data = { ...plain, alpha: rows.map((row) => plain.job[row] === job ? 1 : 0.15), ground: rows.map((row) => plain.job[row] === job ? plain.ground[row] : 0) };
    if (!plain.job.includes(job)) {
      const of = source.data, size = (row) => (of.right[row] - of.left[row]) * (of.top[row] - of.bottom[row]);
      const own = [...of.job.keys()].filter((row) => of.job[row] === job);
      if (own.length) {
        const at = own.reduce((best, row) => size(row) > size(best) ? row : best);
        const text = model(doc, "jobs").data.name[job];
        const all = doc.all_roots.find((root) => root.name === "gantt").y_range.bounds[1], below = of.top[at] + 0.025 * all; // beside what it names
        const end = doc.end_s * of.right[at] / model(doc, "segments").data.end_s[of.segment[at]]; // in the unit of the axis
        const more = { x: Math.min(Math.max((of.left[at] + of.right[at]) / 2, 0.06 * end), 0.94 * end), y: below < all ? below : of.bottom[at] - 0.025 * all, text: text.length > LONGEST ? text.slice(0, LONGEST - 3) + "..." : text, job, alpha: 1, ground: 0.7 };
        for (const column of Object.keys(more)) data[column] = [...data[column], more[column]];
      }
    }
    labels.data = data;
  }

  async function choose(job, move) {
    chosen = job;
    label(job);
    $$(".legend button", $("#run-" + current)).forEach((press) => press.setAttribute("aria-pressed", "false"));
    mark(job < 0 ? null : (data, row) => data.job[row] === job);
    fill();
    const place = $("#job");
    if (job < 0) { place.hidden = true; return; }
    place.replaceChildren(...await story(job));
    place.hidden = false;
    if (move) place.focus();
  }

  function stretches(job) {
    const jobs = model(doc, "jobs").data, s = model(doc, "segments").data, found = [];
    let at = jobs.submission_s[job];
    const end = Number.isNaN(jobs.finish_s[job]) ? null : jobs.finish_s[job];
    for (let k = 0; k < s.job.length; k++) {
      if (s.job[k] !== job) continue;
      if (s.start_s[k] > at + 1e-6) found.push({ kind: found.length ? "preempted" : "queued", from: at, to: s.start_s[k] });
      const began = s.start_s[k] + s.startup_s[k], kept = s.end_s[k] - s.lost_s[k];
      const told = { gpus: s.gpus[k], plan: named(s, "plan", k), why: ENDS[s.ended[k]] };
      if (s.startup_s[k] > 0) found.push({ kind: "start-up", from: s.start_s[k], to: began, ...told, why: "" });
      if (kept > began + 1e-6) found.push({ kind: "running", from: began, to: kept, ...told });
      if (s.lost_s[k] > 0) found.push({ kind: "lost", from: kept, to: s.end_s[k], ...told });
      at = s.end_s[k];
    }
    if (end === null && at < doc.end_s - 1e-6) found.push({ kind: found.length ? "preempted" : "queued", from: at, to: doc.end_s });
    return found;
  }

  const [, orange, green, red, , sky, , grey] = document.body.dataset.palette.split(" ");
  const LOOK = { queued: [grey, "4 3"], preempted: [orange, "4 3"], "start-up": [sky, ""], running: [green, ""], lost: [red, "2 2"] };
  function waterfall(parts) {
    const NS = "http://www.w3.org/2000/svg", svg = document.createElementNS(NS, "svg");
    const from = parts[0].from, span = Math.max(parts.at(-1).to - from, 1e-9);
    svg.setAttribute("class", "waterfall");
    svg.setAttribute("viewBox", "0 0 1000 46");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", parts.map((p) => `${p.kind} ${clock(p.from)} to ${clock(p.to)}`).slice(0, 40).join(", "));
    for (const part of parts) {
      const bar = document.createElementNS(NS, "rect"), tall = { queued: 12, preempted: 12 }[part.kind] ?? 34;
      const set = (name, value) => bar.setAttribute(name, value);
      set("x", 1000 * (part.from - from) / span);
      set("width", Math.max(1000 * (part.to - part.from) / span, 0.7));
      set("y", 40 - tall);
      set("height", tall);
      set("fill", LOOK[part.kind][0]);
      if (LOOK[part.kind][1]) { set("stroke", "#555"); set("stroke-dasharray", LOOK[part.kind][1]); set("vector-effect", "non-scaling-stroke"); }
      svg.append(bar);
    }
    return svg;
  }

  const waits = new Map();
  async function reasons(job) {
    const id = `waits-${current}-data`;
    if ($("#" + id) === null) return null;
    if (!waits.has(current)) waits.set(current, JSON.parse(await unpack(id)));
    const [texts, byJob] = waits.get(current);
    return (byJob[job] ?? []).map(([from, to, rounds, text]) => [from, to, rounds, texts[text]]);
  }

  const table = (header, rows, title = header.join(", ")) => {
    const found = make("table"), top = make("tr");
    for (const text of header) top.append(make("th", text, { scope: "col" }));
    found.append(make("thead"), make("tbody"));
    found.tHead.append(top);
    for (const cells of rows.slice(0, 200)) {
      const row = make("tr");
      for (const text of cells) row.append(make("td", text));
      found.tBodies[0].append(row);
    }
    const around = make("div", undefined, { class: "wide", tabindex: "0", role: "region", "aria-label": title });
    around.append(found);
    return around;
  };

  async function story(job) {
    const jobs = model(doc, "jobs").data, parts = stretches(job), found = [];
    const close = make("button", "Close", { type: "button" });
    close.addEventListener("click", () => choose(-1, false));
    found.push(make("h3", jobs.name[job], { dir: "auto" }), close);
    const sums = {};
    for (const part of parts) sums[part.kind] = (sums[part.kind] ?? 0) + part.to - part.from;
    const told = Object.entries(sums).map(([kind, s]) => `${kind} ${number.format(s)} s`).join(", ");
    found.push(make("p", `${named(jobs, "model", job)}, submitted at ${clock(jobs.submission_s[job])}: ${told || "not yet submitted when the replay ended"}.`));
    if (parts.length) {
      found.push(waterfall(parts));
      const legend = make("p", "Low bars wait, high bars hold GPUs: ");
      for (const [kind, [colour]] of Object.entries(LOOK)) {
        const swatch = make("span", undefined, { class: "swatch" });
        swatch.style.background = colour;
        legend.append(swatch, kind + "  ");
      }
      found.push(legend);
      found.push(table(["what", "from", "to", "seconds", "GPUs", "plan", "ended by"], parts.map((p) => [p.kind, clock(p.from), clock(p.to), number.format(p.to - p.from), p.gpus ?? "", p.plan ?? "", p.why ?? ""])));
    }
    const why = await reasons(job);
    if (why === null) found.push(make("p", "Why it waited is known of runs with --explain."));
    else if (why.length) {
      found.push(make("h4", "Why it was queued"));
      found.push(table(["reason", "from", "to", "rounds"], why.map(([from, to, rounds, text]) => [text, clock(from), clock(to), rounds])));
    }
    return found;
  }

  // ------------------------------------------------------------------ tabs, groups, taps

  async function show(at) {
    const before = doc;
    current = at;
    $$(".run").forEach((run, k) => { run.hidden = k !== at; });
    $$("[role=tab]").forEach((tab, k) => { tab.setAttribute("aria-selected", k === at); tab.tabIndex = k === at ? 0 : -1; });
    const fresh = !documents.has("run-" + at);
    doc = await draw("run-" + at);
    const range = (of) => of.all_roots.find((root) => root.name === "gantt").x_range;
    if (before !== undefined && before !== doc && range(before).bounds[1] === range(doc).bounds[1]) { // of one trace
      range(doc).setv({ start: range(before).start, end: range(before).end });
    }
    if (fresh) {
      const facts = $("#run-" + at);
      doc.end_s = Number($("#nodes-" + at).dataset.end);
      doc.rectangles?.selected.properties.indices.change.connect(() => {
        const [first] = doc.rectangles.selected.indices;
        if (!silent) choose(first === undefined ? -1 : doc.rectangles.data.job[first], false);
      });
      $(".colours", facts)?.addEventListener("change", (event) => {
        $$(".legend", facts).forEach((list) => { list.hidden = list.dataset.group !== event.target.value; });
        $$(".legend button", facts).forEach((press) => press.setAttribute("aria-pressed", "false"));
        mark(null);
        paint(doc, event.target.value);
      });
      for (const press of $$(".legend button", facts)) press.addEventListener("click", () => {
        const on = press.getAttribute("aria-pressed") !== "true", code = Number(press.dataset.code);
        $$(".legend button", facts).forEach((other) => other.setAttribute("aria-pressed", String(on && other === press)));
        mark(on ? (data, row) => data.code[row] === code : null);
      });
    }
    $("#jobs-run").textContent = $("#run-" + at + " h3").textContent;
    chosen = -1;
    $("#job").hidden = true;
    arrange();
  }
  $$("[role=tab]").forEach((tab, at, tabs) => {
    tab.addEventListener("click", () => show(at));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step === undefined) return;
      const to = (at + step + tabs.length) % tabs.length;
      tabs[to].focus();
      show(to);
    });
  });

  // ------------------------------------------------------------------ any two runs

  async function offerPairs(overview) {
    const selects = $$("#choose-pair select"), { labels, choices } = JSON.parse(await unpack("pairs-data"));
    const completed = model(overview, "completions").data, points = model(overview, "pairs-points");
    function pair() {
      const [first, second] = [0, 1].map((which) => Number(selects.find((one) => Number(one.dataset.which) === which).value));
      const told = choices[`${first}-${second}`] ?? { why: ["Choose two different runs."] };
      $("#pair-chart").hidden = told.why !== undefined;
      if (told.why !== undefined) {
        $("#pair").replaceChildren(...told.why.map((line) => make("p", line, { class: "notice" })));
        return;
      }
      $("#pair").replaceChildren(make("p", told.caption), ...told.tables.flatMap((one) => [make("h4", one.title), table(one.header, one.rows, one.title)]));
      $("#pair-chart figcaption").textContent = told.legend;
      const x = completed["run" + first], y = completed["run" + second];
      const rows = [...x.keys()].filter((row) => !Number.isNaN(x[row]) && !Number.isNaN(y[row]));
      const of = (column) => rows.map((row) => column[row]);
      points.data = { x: of(x), y: of(y), ...completed.name && { name: of(completed.name) } };
      model(overview, "pairs-x").axis_label = `JCT by ${labels[first]} (s)`;
      model(overview, "pairs-y").axis_label = `JCT by ${labels[second]} (s)`;
    }
    for (const select of selects) select.addEventListener("change", pair);
    if (selects.some((one) => !one.selectedOptions[0].defaultSelected)) pair(); // kept by a reload
  }

  await show(0);
  const overview = await draw("overview");
  if ($("#choose-pair") !== null) await offerPairs(overview);
  document.documentElement.dataset.ready = "true";
})();
