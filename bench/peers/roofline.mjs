// Draws what the last `./dev bench peers` measured as a roofline, SVG on stdout: node bench/peers/roofline.mjs [SHAPE.json ...]
// Across: operations for each byte that a step must read. Up: operations a second. The slope is the memory's bandwidth, the flat lines are the
// peaks of the dot-product unit.
import fs from 'node:fs';
import { median, peakOf, prefillFlops, stepBytes } from './report.mjs';

const FOLDER = 'build/bench-peers';
const CHUNK = 512; // prompt tokens that one reading of the weights serves
const PLOT = { left: 70, top: 40, width: 640, height: 400 };
const X = [0.5, 4096], Y = [2, 8192]; // op/byte, GFLOP/s
const COLOURS = { bf16: '#1f6fb4', int8: '#d2691e', int4: '#2e8b57' };

const across = (value) => PLOT.left + (PLOT.width * Math.log(value / X[0])) / Math.log(X[1] / X[0]);
const up = (value) => PLOT.top + PLOT.height * (1 - Math.log(value / Y[0]) / Math.log(Y[1] / Y[0]));
const n = (value) => value.toFixed(1);
const text = (x, y, words, more = '') => `<text x="${n(x)}" y="${n(y)}" ${more}>${words}</text>`;
const line = (a, b, more) => `<line x1="${n(across(a[0]))}" y1="${n(up(a[1]))}" x2="${n(across(b[0]))}" y2="${n(up(b[1]))}" ${more}/>`;

// Where a scenario lies: its operations and bytes a token, from the rates.
function point(shape, run, scenario, engine) {
  const rate = median(scenario.turns.map((turn) => turn[engine].tok_s));
  const decodes = scenario.what === 'decode';
  const context = decodes ? scenario.context + scenario.tokens / 2 : 0;
  const flops = decodes
    ? prefillFlops(shape, 1) + 4 * shape.num_attention_heads * shape.head_dim * shape.num_hidden_layers * context
    : prefillFlops(shape, scenario.tokens) / scenario.tokens;
  const bytes = decodes
    ? stepBytes(shape, run.weights[engine], scenario.batch, context) / scenario.batch
    : stepBytes(shape, run.weights[engine] * Math.ceil(scenario.tokens / CHUNK), 1, scenario.tokens) / scenario.tokens;
  return { x: flops / bytes, y: (flops * rate) / 1e9 };
}

function mark(at, run, scenario, engine) {
  const [x, y, colour] = [across(at.x), up(at.y), COLOURS[run.format]];
  const title = `<title>${engine === 'peer' ? 'llama.cpp' : engine} ${engine === 'peer' ? run.peer_format : run.format}, ${scenario.name}: ${at.y.toFixed(0)} GFLOP/s</title>`;
  const style = engine === 'lamina' ? `fill="${colour}"` : `fill="none" stroke="${colour}" stroke-width="1.5"`;
  if (scenario.what === 'prefill') return `<rect x="${n(x - 4)}" y="${n(y - 4)}" width="8" height="8" ${style}>${title}</rect>`;
  return `<circle cx="${n(x)}" cy="${n(y)}" r="4.5" ${style}>${title}</circle>`;
}

function grid() {
  const out = [];
  for (let x = 1; x <= X[1]; x *= 4) out.push(line([x, Y[0]], [x, Y[1]], 'stroke="#e4e4e4"'), text(across(x), PLOT.top + PLOT.height + 16, x, 'text-anchor="middle"'));
  for (let y = 4; y <= Y[1]; y *= 4) out.push(line([X[0], y], [X[1], y], 'stroke="#e4e4e4"'), text(PLOT.left - 8, up(y) + 4, y, 'text-anchor="end"'));
  return out;
}

function roofs(ceilings) {
  const { read_gb_s: bandwidth } = ceilings;
  const peaks = { bf16: peakOf('bf16', ceilings), int8: peakOf('int8', ceilings) };
  const top = Math.max(...Object.values(peaks));
  const out = [line([Math.max(X[0], Y[0] / bandwidth), Math.max(Y[0], bandwidth * X[0])], [top / bandwidth, top], 'stroke="#333" stroke-width="1.5"')];
  out.push(text(across(3), up(bandwidth * 3) - 10, `read ${bandwidth.toFixed(1)} GB/s`, `transform="rotate(${n(slope())} ${n(across(3))} ${n(up(bandwidth * 3) - 8)})"`));
  for (const [name, peak] of Object.entries(peaks)) {
    out.push(line([peak / bandwidth, peak], [X[1], peak], 'stroke="#333" stroke-width="1.5"'));
    out.push(text(across(peak / bandwidth) - 8, up(peak) + 4, `dot product ${name}: ${peak.toFixed(0)} GFLOP/s`, 'text-anchor="end"'));
  }
  return out;
}

const slope = () => (-180 / Math.PI) * Math.atan2(PLOT.height / Math.log(Y[1] / Y[0]), PLOT.width / Math.log(X[1] / X[0]));

function legend() {
  const y = PLOT.top + PLOT.height + 58;
  const names = Object.entries(COLOURS).map(([format, colour], i) => text(PLOT.left + 60 * i, y, format, `fill="${colour}" font-weight="bold"`));
  return [...names, text(PLOT.left + 180, y, 'filled: lamina; hollow: llama.cpp (bf16, q8_0, q4_0); squares: prefill; circles: decode')];
}

function draw(result, shape, offset) {
  const turns = result.runs.flatMap((run) => run.scenarios.flatMap((scenario) => scenario.turns));
  const ceilings = Object.fromEntries(['read_gb_s', 'peak_gflops'].map((key) => [key, median(turns.map((turn) => turn.ceilings[key]))]));
  const marks = result.runs.flatMap((run) =>
    run.scenarios.flatMap((scenario) => ['peer', 'lamina'].map((engine) => mark(point(shape, run, scenario, engine), run, scenario, engine))),
  );
  const title = text(PLOT.left, 24, `${result.shape}, ${result.cpus} CPUs (${result.cpu}), ${result.date}`, 'font-size="14"');
  const axes = [
    text(PLOT.left + PLOT.width / 2, PLOT.top + PLOT.height + 36, 'operations a byte read', 'text-anchor="middle"'),
    text(18, PLOT.top + PLOT.height / 2, 'GFLOP/s', `text-anchor="middle" transform="rotate(-90 18 ${PLOT.top + PLOT.height / 2})"`),
  ];
  return `<g transform="translate(0 ${offset})">\n${[title, ...grid(), ...roofs(ceilings), ...axes, ...marks, ...legend()].join('\n')}\n</g>`;
}

const files = process.argv.length > 2 ? process.argv.slice(2) : fs.readdirSync(FOLDER).filter((name) => /^(1b|qwen3-0\.6b)\.json$/.test(name)).map((name) => `${FOLDER}/${name}`);
const each = PLOT.height + 130;
const drawings = files.map((file, i) => {
  const result = JSON.parse(fs.readFileSync(file, 'utf8'));
  return draw(result, result.config, i * each);
});
const size = `width="${PLOT.left + PLOT.width + 60}" height="${files.length * each}"`;
console.log(`<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="white"/>\n${drawings.join('\n')}\n</svg>`);
