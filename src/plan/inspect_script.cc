// Script of the page of `lamina inspect --html`: draws the plan that stands in the page as JSON.

#include "plan/inspect_html.h"

namespace lamina {

const char* const kInspectScript = R"js("use strict";
const plan = JSON.parse(document.getElementById("plan").textContent);
const topology = plan.topology, ranks = plan.rank_table;

// ---- words ----
const count = n => n.toLocaleString("en-US");
const UNITS = ["B", "kB", "MB", "GB", "TB"];
function size(bytes) {
  let unit = 0, value = bytes;
  while (value >= 1000 && unit < UNITS.length - 1) { value /= 1000; ++unit; }
  return (unit === 0 ? value : value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)) + " " + UNITS[unit];
}
function big(n) {
  for (const [unit, name] of [[1e9, "billion"], [1e6, "million"]]) if (n >= unit) return (n / unit).toPrecision(3) + " " + name;
  return count(n);
}
const thousands = ([begin, end]) => Math.round(begin / 1000) + "–" + Math.round(end / 1000) + "k";
const range = ([begin, end]) => begin === end ? "none" : end - begin === 1 ? count(begin) : count(begin) + "–" + count(end - 1);
const plural = (n, word) => count(n) + " " + word + (n === 1 ? "" : "s");
const shape = sizes => sizes.map(count).join(" × ");

// ---- elements ----
function el(tag, cls, ...children) {
  const node = document.createElement(tag);
  if (cls) node.className = cls;
  node.append(...children.filter(child => child !== null));
  return node;
}
const byId = id => document.getElementById(id);
const row = (name, value, mark) => el("tr", "", el("th", "", ...(mark ? [el("i", mark)] : []), name), el("td", "num", value));

// ---- facts ----
const work = m => m.step + m.stages + m.scratch + m.exchange;
const fixed = m => m.weights + work(m);
const whole = m => fixed(m) + m.kv;
const layersOf = stage => plan.pipeline[stage].layers;
const capacity = plan.memory.available_to === "each rank" ? plan.memory.available : 0;
const scale = Math.max(capacity, ...ranks.map(r => whole(r.memory)));
const most = (key, pick) => Math.max(0, ...ranks.flatMap(r => r[key] ? pick(r[key]) : [0]));
const totals = {heads: most("heads", h => [h[1]]), kv: most("kv_heads", h => [h[1]]), vocabulary: most("vocabulary", v => v.map(x => x.rows[1]))};
const roomy = topology.tp_size <= 4 && ranks.length <= 16;

function drawFacts() {
  byId("title").textContent = plan.model;
  const parts = [plan.class, plural(plan.layers, "layer"), plan.dtype, ...(plan.quantization ? [plan.quantization] : []), plan.tied ? "head tied to the embedding" : "head of its own"];
  byId("subtitle").textContent = parts.join(" · ");
  const fact = (name, value, note) => byId("facts").append(
    el("div", "", el("dt", "", name), el("dd", "", value + " ", el("small", "", note || ""))));
  const attention = topology.dp_attention > 1 ? ", attention dp " + topology.dp_attention + " × tp " + topology.attn_tp : "";
  fact("Ranks", count(plan.ranks), plan.ranks > 1 ? "tp " + topology.tp_size + " × pp " + topology.pp_size + attention : "");
  fact("Parameters", big(plan.parameter_total), "");
  fact("Weights", size(plan.memory.all_ranks.weights), plan.ranks > 1 ? "on all ranks" : "");
  fact("KV a token", size(plan.kv.bytes_per_token_all_ranks), plan.kv.dtype);
  fact("Largest context", count(plan.memory.largest_context), "of " + count(plan.context_length));
  fact("Memory", size(plan.memory.available), "for " + plan.memory.available_to);
  if (plan.memory.fault) byId("facts").after(el("p", "fault", "Does not fit: " + plan.memory.fault));
  const key = (cls, name) => el("span", "", el("i", cls), name);
  byId("legend").append(key("w", "weights"), key("a", "step memory"), key("k", "KV pool"),
    el("span", "scale", "full bar: " + size(scale) + (scale === capacity ? ", what a rank has" : ", the fullest rank")));
}

// ---- tiles ----
function bar(memory) {
  const out = el("div", "bar");
  for (const [cls, bytes] of [["w", memory.weights], ["a", work(memory)], ["k", memory.kv]]) {
    if (bytes === 0) continue;
    const part = el("i", cls);
    part.style.width = (100 * bytes / scale).toFixed(2) + "%";
    out.append(part);
  }
  return out;
}

function share(name, [begin, end], total, note) {
  const words = roomy || end - begin < 1000 ? range([begin, end]) : thousands([begin, end]);
  const rail = el("div", "rail"), held = el("i");
  held.style.left = (100 * begin / total).toFixed(2) + "%";
  held.style.width = (100 * (end - begin) / total).toFixed(2) + "%";
  if (end > begin) rail.append(held);
  return el("div", "share", el("span", "key", name), el("span", "range", words, ...(note ? [note] : [])), rail);
}

function tile(rank) {
  const node = el("button", "tile"), m = rank.memory;
  node.type = "button";
  node.dataset.rank = rank.rank;
  for (const key of ["weights", "kv_bytes_per_token"]) node.dataset[key === "weights" ? "weights" : "kv"] = m[key];
  node.setAttribute("aria-pressed", "false");
  node.append(el("div", "top", el("span", "id", roomy ? "rank " + rank.rank : String(rank.rank)), el("span", "sum", size(whole(m)))), bar(m));
  if (roomy) {
    const amount = (name, bytes) => el("div", "", el("span", "", name), size(bytes));
    node.append(el("div", "amounts", amount("weights", m.weights), amount("step memory", work(m)), amount("KV pool", m.kv)));
  }
  if (rank.heads) node.append(share(roomy ? "heads" : "Q", rank.heads, totals.heads));
  if (rank.kv_heads) {
    const copies = rank.kv_replicas > 1 ? el("span", "times", " ×" + rank.kv_replicas) : null;
    if (copies) copies.title = rank.kv_replicas + " ranks hold these KV heads";
    node.append(share(roomy ? "KV heads" : "KV", rank.kv_heads, totals.kv, copies));
  }
  for (const rows of rank.vocabulary) node.append(share(rows.name.includes("embed") ? (roomy ? "embedding" : "emb") : "head", rows.rows, totals.vocabulary));
  node.addEventListener("mouseenter", () => show(rank.rank));
  node.addEventListener("focus", () => show(rank.rank));
  node.addEventListener("click", () => choose(rank.rank));
  return node;
}

// ---- boundaries ----
const unnumbered = words => words.replace(/layer \d+/g, "layer #");
const kindOf = edge => unnumbered(edge.stage + "|" + edge.variants.map(v => v.plan + v.wire_bytes_per_row).join("|"));
function kinds(edges) {
  const out = new Map();
  for (const edge of edges) {
    const key = kindOf(edge);
    if (!out.has(key)) out.set(key, {first: edge, count: 0});
    ++out.get(key).count;
  }
  return [...out.values()];
}
const usual = edge => edge.variants.find(v => v.plan === edge.plan) || edge.variants[0];
const edgesOf = stage => plan.stages.filter(edge => edge.pipeline_stage === stage);
const shortName = name => name.replace(/^layer \d+ /, "");

let lastEdges = "";
/// The boundaries of a stage in words; null when they are those of the stage above.
function edgeList(stage) {
  const found = kinds(edgesOf(stage));
  const key = found.map(k => kindOf(k.first)).sort().join("#");
  if (key === lastEdges) return null;
  lastEdges = key;
  const list = el("ul", "edges");
  for (const {first: edge, count: times} of found) {
    const plain = usual(edge), only = times === 1 && found.some(k => k.first !== edge && shortName(k.first.stage) === shortName(edge.stage));
    list.append(el("li", "", el("b", "", only ? edge.stage : shortName(edge.stage)), el("span", "", edge.plan.replace(/layer \d+ /g, "")),
      plain && plan.ranks > 1 ? el("span", "cost", size(plain.wire_bytes_per_row) + " a row") : null));
  }
  return list;
}

const ARROW = '<svg width="12" height="18" viewBox="0 0 12 18" fill="none" stroke="currentColor" stroke-width="1.5"><path d="M6 0v16M1.5 11.5 6 16l4.5-4.5"/></svg>';
function handOver(stage) {
  const over = plan.pipeline[stage].hands_over;
  if (!over) return null;
  const text = el("span"), rule = () => el("i", "rule");
  text.innerHTML = ARROW;
  const bytes = edgesOf(stage).some(edge => usual(edge).variant.includes("scattered")) ? over.wire_bytes_per_row_scattered : over.wire_bytes_per_row;
  text.append("residual and unreduced output to stage " + over.to_stage + ", " + size(bytes) + " a row", rule());
  return el("div", "hand", text);
}

// ---- stages ----
function stageRow({stage, layers, ranks: [begin, end]}) {
  const edges = edgeList(stage);
  const who = el("div", "who", el("h2", "", plan.pipeline.length > 1 ? "Stage " + stage : "All layers"),
    el("div", "", "layers ", el("b", "", range(layers))), el("div", "", plural(layers[1] - layers[0], "layer")),
    edges ? null : el("div", "same", "same boundaries"));
  const groups = el("div", "groups");
  for (let dp = 0; dp < topology.dp_attention; ++dp) {
    const mine = ranks.slice(begin, end).filter(rank => rank.dp_rank === dp);
    const tiles = el("div", "tiles", ...mine.map(tile));
    tiles.style.setProperty("--columns", Math.min(mine.length, 8));
    groups.append(el("div", "group", topology.dp_attention > 1 ? el("p", "", "attention dp " + dp) : null, tiles));
  }
  return el("div", "stage" + (roomy ? " roomy" : ""), who, groups, edges);
}

// ---- the chosen rank ----
const sourceName = source => typeof source === "string" ? source : source.tensor;
/// Rows and columns of a source tensor: one a part, or the fused one.
function sourceShape(param, index) {
  const parts = param.sources.length === param.on_disk.length ? [param.on_disk[index]] : param.on_disk;
  return [parts.reduce((sum, part) => sum + part[0], 0), parts[0][1] || 1];
}
const cutOf = (word, [begin, end], all) => end - begin === all ? "all " + word : word + " " + range([begin, end]) + " of " + count(all);
function paramNode(param, place, rank, prefix) {
  const pieces = plan.slices[place.slices][rank.tp_rank], short = name => name.startsWith(prefix) ? name.slice(prefix.length) : name;
  const whole = place.local.join() === param.global.join();
  const node = el("div", "param", el("code", "", short(param.name)),
    el("div", "shape", shape(place.local) + (whole ? "" : " of " + shape(param.global)) + " · " + param.format + " · " +
      size(bytesOn(place, rank)) + (param.group ? " · cut by " + param.group : "")));
  if (pieces.length === 0) node.append(el("div", "from", "padding only"));
  pieces.forEach((piece, i) => {
    const source = param.sources[piece.source], [rows, cols] = sourceShape(param, piece.source);
    const cuts = [cutOf("rows", piece.rows, rows)];
    if (cols > 1) cuts.push(cutOf("columns", piece.cols, cols));
    if (place.file_ranges) cuts.push("bytes " + range(place.file_ranges[rank.tp_rank][i]) + " of " + source.file);
    node.append(el("div", "from", el("span", "arrow", "← "), el("code", "", short(sourceName(source))), " " + cuts.join(", ")));
  });
  return node;
}

const bytesOn = (place, rank) => place.rank_bytes ? place.rank_bytes[rank.tp_rank] : place.bytes;
function moduleOf(name) {
  const layer = /^(.*\.layers\.\d+)\./.exec(name);
  return layer ? layer[1] : name.slice(0, name.lastIndexOf("."));
}

function moduleNodes(rank) {
  const modules = new Map();
  for (const param of plan.parameters) {
    const place = param.places.find(p => p.stage === rank.stage);
    if (!place) continue;
    const name = moduleOf(param.name);
    if (!modules.has(name)) modules.set(name, []);
    modules.get(name).push([param, place]);
  }
  let opened = 0;
  return [...modules].map(([name, params]) => {
    const bytes = params.reduce((sum, [, place]) => sum + bytesOn(place, rank), 0);
    const node = el("details", "", el("summary", "", el("code", "", name), el("span", "num", size(bytes))));
    const fill = () => { if (node.childElementCount === 1) node.append(...params.map(([param, place]) => paramNode(param, place, rank, name + "."))); };
    node.addEventListener("toggle", fill);
    if (/\.layers\./.test(name) && opened++ === 0) { node.open = true; fill(); }
    return node;
  });
}

function show(number) {
  const rank = ranks[number], m = rank.memory, panel = byId("detail");
  panel.dataset.rank = number;
  const place = ["stage " + rank.stage, "tp rank " + rank.tp_rank];
  if (topology.dp_attention > 1) place.push("attention dp " + rank.dp_rank + ", tp " + rank.attn_tp_rank);
  const table = el("table", "", row("weights", size(m.weights), "w"), row("step memory", size(work(m)), "a"),
    row("KV pool, " + count(plan.memory.kv_tokens) + " tokens", size(m.kv), "k"), row("KV a token", count(m.kv_bytes_per_token) + " bytes"));
  const holds = el("table", "", row("layers", range(rank.layers)));
  if (rank.heads) holds.append(row("heads", range(rank.heads) + " of " + totals.heads));
  if (rank.kv_heads) holds.append(row("KV heads", range(rank.kv_heads) + " of " + totals.kv));
  if (rank.kv_replicas > 1) holds.append(row("ranks with these KV heads", String(rank.kv_replicas)));
  for (const rows of rank.vocabulary) {
    holds.append(row(rows.name.replace(/\.weight$/, ""), range(rows.rows) + (rows.padding ? " + " + rows.padding + " padding" : "")));
  }
  panel.replaceChildren(el("h2", "", "Rank " + number), el("p", "", place.join(" · ")), el("h3", "", "Memory"), bar(m), table,
    el("h3", "", "Holds"), holds, el("h3", "", "Parameters and where they come from"), ...moduleNodes(rank));
}

let chosen = -1;
function choose(number) {
  chosen = number;
  for (const node of document.querySelectorAll(".tile")) node.setAttribute("aria-pressed", String(Number(node.dataset.rank) === number));
  show(number);
}

// ---- below the picture ----
function drawBoundaries() {
  for (const kind of kinds(plan.stages)) {
    const table = el("table");
    for (const variant of kind.first.variants) {
      table.append(el("tr", "", el("th", "", variant.variant), el("td", "", unnumberedFor(kind, variant.plan)),
        el("td", "num", size(variant.wire_bytes_per_row) + " a row")));
    }
    const title = el("h3", "", kind.first.stage + " ", el("small", "", kind.count > 1 ? "and " + (kind.count - 1) + " like it" : ""));
    byId("boundaries").append(el("div", "kind", title, table));
  }
}
const unnumberedFor = (kind, words) => kind.count > 1 ? words.replace(/layer \d+ /g, "") : words;

function drawAccount() {
  const sums = plan.accounting, table = el("table", "account");
  const line = (name, elements, bytes, cls) => table.append(el("tr", cls || "", el("th", "", name), el("td", "", elements === null ? "" : count(elements)), el("td", "", count(bytes))));
  table.append(el("tr", "", el("th", "", ""), el("td", "", "elements"), el("td", "", "bytes")));
  line("checkpoint", sums.checkpoint.elements, sums.checkpoint.bytes);
  line("kept in another type", null, sums.widening_bytes);
  line("replicas", sums.replicas.elements, sums.replicas.bytes);
  line("vocabulary padding", sums.vocabulary_padding.elements, sums.vocabulary_padding.bytes);
  line("padding of panels and lines", null, sums.packing_bytes);
  line("all ranks", sums.ranks.elements, sums.ranks.bytes, "total");
  byId("account").append(table);
}

drawFacts();
for (const stage of plan.pipeline) {
  byId("map").append(stageRow(stage));
  const over = handOver(stage.stage);
  if (over) byId("map").append(over);
}
byId("map").addEventListener("mouseleave", () => show(chosen));
drawBoundaries();
drawAccount();
const asked = /^#rank=(\d+)$/.exec(location.hash);
choose(asked && Number(asked[1]) < ranks.length ? Number(asked[1]) : 0);
document.body.dataset.ready = "true";
)js";

}  // namespace lamina
