"use strict";
(function () {
  const data = window.gpubenchData;
  const palette = ["#2563a8", "#c2410c", "#1f7a3d", "#8e3a9c", "#0e7c86", "#a16207", "#be123c", "#4d5bd1", "#5f6b3a", "#7c4a2d", "#3b82c4", "#777777"];
  const main = document.getElementById("main");
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // el makes an element; text always goes in as text, never as markup.
  function el(tag, attrs, ...children) {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(attrs || {})) {
      if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
      else if (v === true) e.setAttribute(k, "");
      else if (v !== false && v != null) e.setAttribute(k, v);
    }
    for (const c of children) if (c != null) e.append(c);
    return e;
  }

  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  function bytes(n) {
    if (n == null) return "–";
    let u = 0;
    while (n >= 1024 && u < units.length - 1) { n /= 1024; u++; }
    return (Math.round(n * 100) / 100) + " " + units[u];
  }
  function ns(v) {
    if (v == null) return "refused";
    const step = [[1e3, 1, "ns"], [1e6, 1e3, "µs"], [1e9, 1e6, "ms"], [Infinity, 1e9, "s"]].find((s) => Math.abs(v) < s[0]);
    return Number((v / step[1]).toPrecision(3)) + " " + step[2];
  }
  // binarySplits puts about five ticks at whole binary units.
  function binarySplits(u, axis, lo, hi) {
    const step = 2 ** Math.max(0, Math.ceil(Math.log2((hi - lo) / 5 || 1))), ticks = [];
    for (let v = Math.ceil(lo / step) * step; v <= hi; v += step) ticks.push(v);
    return ticks;
  }
  const percent = (v) => (v === 1 ? "100 %" : (Math.floor(v * 1e4) / 100).toFixed(2) + " %");

  const key = (c) => c.label + (c.scope === "tight" ? ", tight" : "");
  const events = { label: "event", values: (u, vals) => vals.map((v) => v >= 1e6 ? v / 1e6 + "M" : v >= 1e3 ? v / 1e3 + "k" : v) };

  document.getElementById("verdict").textContent = data.ranking.verdict;
  warnings(data.ranking.warnings.concat(data.notes), main);
  data.ranking.traces.forEach((t, i) => traceSection(t, i));
  if (data.ranking.across) acrossSection(data.ranking.across);
  environment();

  function warnings(list, into) {
    if (!list.length) return;
    const ul = el("ul");
    list.forEach((w) => ul.append(el("li", {}, w)));
    into.append(el("div", { class: "warn" }, "Warnings", ul));
  }

  function traceSection(t, index) {
    const section = el("section");
    main.append(section);
    section.append(el("h2", {}, t.trace));
    const at = t.tight_bytes ? `success and fragmentation at ${bytes(t.tight_bytes)} (tight), latency at ${bytes(t.device_bytes)}` : `all at ${bytes(t.device_bytes)}`;
    section.append(el("p", { class: "note" }, `Lower bound ${bytes(t.lower_bound_bytes)}${packing(t.bounds)}; ${at}. Latency: ${t.latency_basis}.`));
    section.append(rankTable(t));
    if (t.noise_floor_relative != null)
      section.append(el("p", { class: "note" }, `A/A control: the same case measured twice differs by up to ${ns(t.noise_floor_ns)} (${(100 * t.noise_floor_relative).toFixed(1)} %); smaller differences are ties.`));
    t.disqualified.forEach((d) => finding(d, section));
    const list = t.warnings.slice();
    t.rows.forEach((r) => (r.warnings || []).forEach((w) => list.push(r.label + ": " + w)));
    warnings(list, section);
    const cases = data.cases.filter((c) => c.trace === index);
    memoryCharts(cases, section);
    fragmentationChart(cases, section);
    latencyChart(cases, section);
    addressSpace(cases, section);
  }

  // packing says what a packing that knows the whole future would need.
  function packing(b) {
    if (!b || !b.greedy_bytes) return "";
    if (b.packed_optimal) return `, ${bytes(b.packed_bytes)} without moving blocks (optimal packing)`;
    if (b.packed_bytes && b.packed_bytes < b.greedy_bytes) return `, ${bytes(b.packed_bytes)} in the best packing found, ${bytes(b.greedy_bytes)} greedily`;
    return `, ${bytes(b.greedy_bytes)} packed greedily with the future known`;
  }

  function rankTable(t) {
    const head = ["#", "strategy", "success", "failed", "spurious", "ext. frag.", "latency", "95 % interval", "policy p50", "policy p99", "peak reserved", "calls / 1000", "Pareto"];
    const minCap = t.rows.some((r) => r.min_capacity_bytes != null), score = t.rows.some((r) => r.score != null);
    if (minCap) head.push("min. capacity");
    if (score) head.push("score");
    const table = el("table", {}, el("thead", {}, el("tr", {}, ...head.map((h) => el("th", {}, h)))));
    const body = el("tbody");
    table.append(body);
    for (const r of t.rows) {
      const lat = r.latency_ns.missing ? "–" : ns(r.latency_ns.value);
      const iv = r.latency_ns.missing || r.latency_ns.exact ? "–" : ns(r.latency_ns.low) + " … " + ns(r.latency_ns.high);
      const cells = [r.place + (r.tied ? "=" : ""), r.label, percent(r.success.value), r.failed, r.spurious, r.fragmentation.value.toFixed(4), lat, iv,
        ns(r.policy_ns_p50), ns(r.policy_ns_p99), bytes(r.peak_reserved_bytes), r.device_calls_per_1000_events.toFixed(1), r.pareto ? "yes" : ""];
      if (minCap) cells.push(bytes(r.min_capacity_bytes));
      if (score) cells.push(r.score.toFixed(3));
      body.append(el("tr", {}, ...cells.map((c) => el("td", {}, String(c)))));
    }
    for (const d of t.disqualified)
      body.append(el("tr", { class: "out" }, el("td", {}, "–"), el("td", {}, d.label), el("td", { class: d.canary ? "good" : "bad" }, d.canary ? "caught" : "disqualified"), el("td", { class: "wide", colspan: head.length - 3 }, d.finding)));
    for (const u of t.unmeasured)
      body.append(el("tr", { class: "out" }, el("td", {}, "–"), el("td", {}, u.label), el("td", {}, "no result"), el("td", { class: "wide", colspan: head.length - 3 }, u.class + ": " + u.text)));
    return el("div", { class: "scroll" }, table);
  }

  function finding(d, into) {
    into.append(el("h3", {}, (d.canary ? "Canary caught, as it must be: " : "Finding: ") + d.label));
    into.append(el("p", {}, `${d.finding} (${d.count} in all)`));
    if (d.map) into.append(el("pre", {}, d.map));
    into.append(el("p", { class: "note" }, "next: " + d.next));
  }

  // chart makes one uPlot chart that follows the width of the page.
  function chart(into, opts, series) {
    const box = el("div", { class: "chart" });
    into.append(box);
    const width = () => Math.max(320, into.clientWidth);
    const axis = { stroke: css("--dim"), grid: { stroke: css("--line"), width: 1 }, ticks: { stroke: css("--line") } };
    const u = new uPlot(Object.assign({ width: width(), height: 260, cursor: { drag: { x: true, y: false } } }, opts, {
      axes: [Object.assign({}, axis, opts.axes[0]), Object.assign({}, axis, { size: 78 }, opts.axes[1])],
    }), series, box);
    new ResizeObserver(() => u.setSize({ width: width(), height: u.height })).observe(into);
    return u;
  }

  function memoryCharts(cases, section) {
    const have = cases.filter((c) => c.series);
    if (!have.length) return;
    section.append(el("h3", {}, "Memory over time"));
    const holder = el("div");
    const pick = el("select", { onchange: () => draw(Number(pick.value)) }, ...have.map((c, i) => el("option", { value: i }, key(c))));
    section.append(el("div", { class: "controls" }, el("label", {}, "strategy ", pick), el("span", { class: "legend" }, "drag to zoom, double click to go back; bands reach from the minimum to the maximum of a point")), holder);
    function draw(i) {
      holder.replaceChildren();
      const c = have[i], s = c.series;
      const line = (label, color, hidden) => ({ label, stroke: color, width: 1.5, points: { show: false }, value: (u, v) => bytes(v), show: !hidden });
      chart(holder, {
        scales: { x: { time: false }, y: { range: (u, lo, hi) => [0, hi * 1.05 || 1] } },
        axes: [events, { values: (u, vals) => vals.map(bytes), splits: binarySplits }],
        series: [{ label: "event" }, line("live", palette[2]), line("live, minimum", palette[2]), line("reserved", palette[0]), line("reserved, minimum", palette[0]), line("device", palette[1])],
        bands: [{ series: [1, 2], fill: palette[2] + "44" }, { series: [3, 4], fill: palette[0] + "33" }],
      }, [s.event, s.live_max, s.live_min, s.reserved_max, s.reserved_min, s.device_max]);
    }
    draw(preferTight(have, pick));
  }

  // preferTight selects the first tight case, where memory is short and the picture says most.
  function preferTight(have, pick) {
    const i = Math.max(0, have.findIndex((c) => c.scope === "tight"));
    pick.value = i;
    return i;
  }

  function fragmentationChart(cases, section) {
    const tight = cases.filter((c) => c.series && c.scope === "tight");
    const have = tight.length ? tight : cases.filter((c) => c.series);
    if (!have.length) return;
    section.append(el("h3", {}, "External fragmentation over time" + (tight.length ? " (tight capacity)" : "")));
    section.append(el("p", { class: "note" }, "1 − largest free ÷ total free inside reserved memory; the maximum of each point. Click a name to hide it."));
    // All cases of a trace have the same events a point, so the longest list of events serves all.
    const x = have.reduce((a, c) => (c.series.event.length > a.length ? c.series.event : a), []);
    const pad = (ys) => x.map((_, i) => (i < ys.length ? ys[i] : null));
    chart(section, {
      scales: { x: { time: false }, y: { range: () => [0, 1] } },
      axes: [events, {}],
      series: [{ label: "event" }].concat(have.map((c, i) => ({ label: c.label, stroke: palette[i % palette.length], width: 1.5, points: { show: false }, value: (u, v) => (v == null ? "–" : v.toFixed(4)) }))),
    }, [x].concat(have.map((c) => pad(c.series.external_max))));
  }

  function latencyChart(cases, section) {
    const have = cases.filter((c) => c.latency && c.latency.length && c.latency[0].samples > 0);
    if (!have.length) return;
    section.append(el("h3", {}, "Policy latency"));
    section.append(el("p", { class: "note" }, "Share of allocs and frees that took longer than the time on the axis (both logarithmic), one trial each. What lies below the clock's own cost is not resolved."));
    const at = new Set();
    have.forEach((c) => c.latency[0].high_ns.forEach((v) => { if (v > 0) at.add(v); }));
    const x = Array.from(at).sort((a, b) => a - b);
    const curves = have.map((c) => {
      const d = c.latency[0], above = new Map();
      let left = d.samples;
      d.high_ns.forEach((h, i) => { left -= d.count[i]; above.set(h, left > 0 ? left / d.samples : null); });
      let last = 1, ended = false;
      return x.map((v) => {
        if (above.has(v)) { last = above.get(v); ended = last == null; }
        return ended ? null : last;
      });
    });
    chart(section, {
      scales: { x: { time: false, distr: 3 }, y: { distr: 3, range: (u, lo) => [Math.min(lo || 1e-5, 0.01), 1] } },
      axes: [{ values: (u, vals) => vals.map((v) => (v == null ? "" : ns(v))) }, { values: (u, vals) => vals.map((v) => (v == null ? "" : Number((100 * v).toPrecision(2)) + " %")) }],
      series: [{ label: "longer than", value: (u, v) => (v == null ? "–" : ns(v)) }].concat(have.map((c, i) => ({ label: c.label, stroke: palette[i % palette.length], width: 1.5, points: { show: false }, value: (u, v) => (v == null ? "–" : Number((100 * v).toPrecision(3)) + " %") }))),
    }, [x].concat(curves));
  }

  function addressSpace(cases, section) {
    const have = cases.filter((c) => c.picture && c.picture.addr.length);
    if (!have.length) return;
    section.append(el("h3", {}, "Address space over time"));
    const pick = el("select", { onchange: () => show(Number(pick.value)) }, ...have.map((c, i) => el("option", { value: i }, key(c))));
    const reset = el("button", { onclick: () => { view.fit(); view.draw(); } }, "whole picture");
    const note = el("span", { class: "legend" });
    section.append(el("div", { class: "controls" }, el("label", {}, "strategy ", pick), reset, note));
    const canvas = el("canvas", { tabindex: "0", "aria-label": "address space over time; wheel to zoom, drag to move" });
    const tip = el("div", { class: "tip", hidden: true });
    section.append(el("div", { class: "space" }, canvas, tip));
    const view = spaceView(canvas, tip);
    function show(i) {
      const p = have[i].picture;
      note.textContent = "events run to the right, addresses upwards, gaps between segments are left out; wheel zooms, drag moves, Shift-wheel zooms events only" + (p.dropped ? `; the ${p.dropped} smallest blocks are left out` : "");
      view.load(p);
    }
    show(preferTight(have, pick));
    new ResizeObserver(() => view.draw()).observe(canvas);
  }

  // spaceView draws rectangles (event range × address range). Addresses are folded: the ranges that any segment covers are laid
  // end to end, since real addresses lie terabytes apart.
  function spaceView(canvas, tip) {
    let rects = [], total = 1, span = 1, x0 = 0, x1 = 1, y0 = 0, y1 = 1, drag = null;
    function load(p) {
      const addr = p.addr.map((a) => BigInt(a)), size = p.bytes.slice();
      clipSegments(p, addr, size);
      const order = addr.map((_, i) => i).sort((i, j) => (addr[i] < addr[j] ? -1 : addr[i] > addr[j] ? 1 : 0));
      const fold = []; // [start, end, offset] of covered ranges
      for (const i of order) {
        const end = addr[i] + BigInt(size[i]);
        const last = fold[fold.length - 1];
        if (last && addr[i] <= last[1]) { if (end > last[1]) last[1] = end; } else fold.push([addr[i], end, 0]);
      }
      let at = 0;
      for (const f of fold) { f[2] = at; at += Number(f[1] - f[0]); }
      total = at || 1;
      span = p.events || 1;
      let k = 0;
      const low = new Array(addr.length);
      for (const i of order) {
        while (k + 1 < fold.length && addr[i] >= fold[k + 1][0]) k++;
        low[i] = fold[k][2] + Number(addr[i] - fold[k][0]);
      }
      rects = addr.map((a, i) => ({ low: low[i], height: size[i], bytes: p.bytes[i], first: p.first[i], last: p.last[i], handle: p.handle[i], tag: p.tags[p.tag[i]], addr: a }));
      fit();
      draw();
    }
    // clipSegments shortens the drawn height of a segment to what its blocks ever reach, or an arena of the whole device would
    // squeeze them into a line.
    function clipSegments(p, addr, size) {
      const blocks = addr.map((_, i) => i).filter((i) => p.handle[i]).sort((i, j) => (addr[i] < addr[j] ? -1 : 1));
      addr.forEach((a, i) => {
        if (p.handle[i]) return;
        const end = a + BigInt(p.bytes[i]);
        let lo = 0, hi = blocks.length, reach = a;
        while (lo < hi) { const mid = (lo + hi) >> 1; if (addr[blocks[mid]] < a) lo = mid + 1; else hi = mid; }
        for (; lo < blocks.length && addr[blocks[lo]] < end; lo++) {
          const e = addr[blocks[lo]] + BigInt(p.bytes[blocks[lo]]);
          if (e > reach) reach = e;
        }
        if (reach > a) size[i] = Number((reach < end ? reach : end) - a);
      });
    }
    function fit() { x0 = 0; x1 = span; y0 = 0; y1 = total; }
    function color(r) {
      let h = Math.imul(r.tag ? hash(r.tag) : r.handle, 2654435761) >>> 0;
      return `hsl(${h % 360} 55% ${45 + (h >>> 9) % 20}%)`;
    }
    function hash(s) { let h = 2166136261; for (let i = 0; i < s.length; i++) h = Math.imul(h ^ s.charCodeAt(i), 16777619); return h >>> 0; }
    function draw() {
      const ratio = window.devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
      canvas.width = w * ratio; canvas.height = h * ratio;
      const g = canvas.getContext("2d");
      g.scale(ratio, ratio);
      g.clearRect(0, 0, w, h);
      const sx = w / (x1 - x0), sy = h / (y1 - y0);
      for (const r of rects) {
        const left = Math.max(0, (r.first - x0) * sx), right = Math.min(w, (r.last - x0) * sx);
        const top = Math.max(0, h - (r.low + r.height - y0) * sy), bottom = Math.min(h, h - (r.low - y0) * sy);
        if (right <= 0 || left >= w || bottom <= 0 || top >= h) continue;
        g.fillStyle = r.handle ? color(r) : css("--line");
        const rw = Math.max(0.7, right - left), rh = Math.max(0.5, bottom - top);
        g.fillRect(left, top, rw, rh);
        if (r.handle && rw > 5 && rh > 5) { g.strokeStyle = css("--paper"); g.lineWidth = 0.5; g.strokeRect(left, top, rw, rh); }
      }
    }
    function pointed(ev) {
      const b = canvas.getBoundingClientRect(), px = ev.clientX - b.left, py = ev.clientY - b.top;
      return { px, py, e: x0 + (px / b.width) * (x1 - x0), a: y0 + (1 - py / b.height) * (y1 - y0), w: b.width, h: b.height };
    }
    canvas.addEventListener("wheel", (ev) => {
      ev.preventDefault();
      const p = pointed(ev), f = Math.exp(Math.max(-50, Math.min(50, ev.deltaY || ev.deltaX)) * 0.01);
      const dx = Math.min(span, Math.max(2, (x1 - x0) * f)), kx = (p.e - x0) / (x1 - x0);
      x0 = Math.max(0, Math.min(span - dx, p.e - kx * dx)); x1 = x0 + dx;
      if (!ev.shiftKey) {
        const dy = Math.min(total, Math.max(256, (y1 - y0) * f)), ky = (p.a - y0) / (y1 - y0);
        y0 = Math.max(0, Math.min(total - dy, p.a - ky * dy)); y1 = y0 + dy;
      }
      draw();
    }, { passive: false });
    canvas.addEventListener("pointerdown", (ev) => { canvas.setPointerCapture(ev.pointerId); drag = { p: pointed(ev), x0, x1, y0, y1 }; });
    canvas.addEventListener("pointerup", () => { drag = null; });
    canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
    canvas.addEventListener("pointermove", (ev) => {
      const p = pointed(ev);
      if (drag) {
        const dx = drag.x1 - drag.x0, dy = drag.y1 - drag.y0;
        x0 = Math.max(0, Math.min(span - dx, drag.x0 - ((p.px - drag.p.px) / p.w) * dx)); x1 = x0 + dx;
        y0 = Math.max(0, Math.min(total - dy, drag.y0 + ((p.py - drag.p.py) / p.h) * dy)); y1 = y0 + dy;
        draw();
        return;
      }
      let hit = null;
      for (const r of rects) if (p.e >= r.first && p.e < r.last && p.a >= r.low && p.a < r.low + r.height && (!hit || r.handle)) hit = r;
      tip.hidden = !hit;
      if (!hit) return;
      tip.textContent = (hit.handle ? "h" + hit.handle : "segment") + (hit.tag ? "  " + hit.tag : "") + `\n0x${hit.addr.toString(16)} + ${bytes(hit.bytes)}\nevents ${hit.first} to ${hit.last}`;
      tip.style.left = Math.min(p.px + 14, p.w - tip.offsetWidth - 4) + "px";
      tip.style.top = Math.min(p.py + 14, p.h - tip.offsetHeight - 4) + "px";
    });
    return { load, fit, draw };
  }

  function acrossSection(a) {
    main.append(el("h2", {}, "Across recordings"));
    const table = el("table", {}, el("thead", {}, el("tr", {}, ...["", "strategy", "average rank", "wins", "group"].map((h) => el("th", {}, h)))));
    const body = el("tbody");
    a.rows.forEach((r, i) => body.append(el("tr", {}, ...[i + 1, r.label, r.average_rank.toFixed(2), r.wins, r.group].map((c) => el("td", {}, String(c))))));
    table.append(body);
    main.append(table, el("p", { class: "note" }, `${a.traces} recordings; critical difference of average ranks ${a.critical_difference.toFixed(2)} (Nemenyi, α = 0.05); strategies that share a letter are not told apart.`));
    warnings(a.warnings, main);
  }

  function environment() {
    main.append(el("h2", {}, "Run and environment"));
    const run = data.run, facts = { run: run.id, "created at": run.created_at, seed: run.seed, device: run.device.title || run.device.name, "device capacity": bytes(run.device.capacity_bytes) };
    for (const t of run.traces) facts["recording " + t.name] = `${t.source}, ${t.events} events, covers ${t.covers_percent} %, sha256 ${t.sha256.slice(0, 16)}…`;
    for (const [k, v] of Object.entries(run.environment)) if (k !== "warnings" && v !== "" && v != null) facts[k.replaceAll("_", " ")] = k.endsWith("_bytes") ? bytes(v) : Array.isArray(v) ? v.join(", ") : typeof v === "number" ? Number(v.toPrecision(6)) : v;
    const dl = el("dl", { class: "facts" });
    for (const [k, v] of Object.entries(facts)) dl.append(el("div", {}, el("dt", {}, k), el("dd", {}, String(v))));
    main.append(dl);
    const dev = [], seen = new Set();
    data.ranking.traces.forEach((t) => t.rows.forEach((r) => (r.deviations || []).forEach((d) => {
      if (!seen.has(r.strategy + d.id)) { seen.add(r.strategy + d.id); dev.push(`${r.strategy}: ${d.text} (${d.section})`); }
    })));
    if (dev.length) {
      main.append(el("h3", {}, "Known deviations of exact copies (kept on purpose, not findings)"));
      const ul = el("ul");
      dev.forEach((d) => ul.append(el("li", {}, d)));
      main.append(ul);
    }
  }
})();
