// lamina beside llama.cpp on the same numbers, alternately in one run:
//   node bench/peers/peers.mjs BUILD [--shape 1b|qwen3-0.6b|CONFIG_FOLDER] [--only bf16|int8|int4] [--rounds 5] [--quick] [--short] [--serve]
// BUILD is the folder of the release build. --quick: one short round, to see that everything works; --short: no context of 4096; --serve: 16
// clients instead of single rates. Prints tables in markdown and leaves every figure in build/bench-peers/SHAPE.json,
// what leaves something out in SHAPE-short.json and the like.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { compareNumbers } from './numbers.mjs';
import { relations, summarise, table } from './report.mjs';
import { compareServing } from './serving.mjs';
import { startSession } from './session.mjs';

const SHAPES = { '1b': 'tests/configs/llama-3.2-1b', 'qwen3-0.6b': 'tests/configs/qwen3-0.6b' };
const FORMATS = { bf16: 'bf16', int8: 'q8_0', int4: 'q4_0' }; // ours: the peer's nearest
const OUT = 'build/bench-peers';
const MODELS = 'build/bench-models';

function parseOptions(argv) {
  const out = { build: argv[0], shapes: Object.keys(SHAPES), formats: Object.keys(FORMATS), rounds: 5, quick: false, short: false, serve: false };
  const choose = (value, allowed, flag) => (allowed.includes(value) ? [value] : fail(`${flag} takes ${allowed.join(' or ')}, not '${value}'`));
  for (let i = 1; i < argv.length; ++i) {
    if (argv[i] === '--shape') out.shapes = [SHAPES[argv[++i]] ? argv[i] : otherShape(argv[i])];
    else if (argv[i] === '--only') out.formats = choose(argv[++i], Object.keys(FORMATS), '--only');
    else if (argv[i] === '--rounds') out.rounds = Number(argv[++i]);
    else if (['--quick', '--short', '--serve'].includes(argv[i])) out[argv[i].slice(2)] = true;
    else fail(`bench peers knows --shape, --only, --rounds, --quick, --short and --serve, not '${argv[i]}'`);
  }
  if (!(out.rounds >= 1)) fail('--rounds takes a number from 1 on');
  if (out.quick) out.rounds = 1;
  return out;
}

// A folder with a config.json of llama or qwen3, known by its name.
function otherShape(folder) {
  const name = path.basename(folder ?? '');
  if (!fs.existsSync(`${folder}/config.json`)) fail(`--shape takes ${Object.keys(SHAPES).join(', ')} or a folder with a config.json, not '${folder}'`);
  SHAPES[name] = folder;
  return name;
}

function fail(message) {
  console.error(`error: ${message}`);
  process.exit(2);
}

const say = (text) => process.stderr.write(`${text}\n`);

function scenarios({ quick, short }) {
  const prefills = quick ? [128] : short ? [128, 512] : [128, 512, 4096];
  const contexts = quick || short ? [32] : [32, 4096];
  const batches = quick ? [1, 4] : [1, 4, 16];
  const tokens = quick ? 8 : 32;
  return [
    ...prefills.map((length) => ({ name: `prefill ${length}`, what: 'prefill', tokens: length })),
    ...contexts.flatMap((context) => batches.map((batch) => ({ name: `decode, context ${context}, batch ${batch}`, what: 'decode', context, batch, tokens }))),
  ];
}

// The checkpoint and GGUF files of a shape; made once.
function makeModels(build, shape) {
  const folder = `${MODELS}/${shape}`;
  const mark = `${folder}/.complete`;
  const config = fs.readFileSync(`${SHAPES[shape]}/config.json`, 'utf8');
  if (fs.existsSync(mark) && fs.readFileSync(mark, 'utf8') === config) return folder;
  say(`making ${folder}`);
  fs.rmSync(folder, { recursive: true, force: true });
  fs.mkdirSync(folder, { recursive: true });
  execFileSync(`${build}/make_bench_models`, [SHAPES[shape], folder], { stdio: 'inherit' });
  fs.writeFileSync(mark, config);
  return folder;
}

// The checkpoint in `format`, which lamina writes of the bf16 one; made once.
function checkpointIn(build, folder, format) {
  if (format === 'bf16') return `${folder}/hf`;
  const out = `${folder}/${format}`;
  if (fs.existsSync(`${out}/config.json`)) return out;
  say(`making ${out}`);
  execFileSync(`${build}/lamina`, ['quantize', `${folder}/hf`, out, '--scheme', format], { stdio: ['ignore', 'ignore', 'inherit'] });
  return out;
}

// Starts what is measured. Both read their files from a warm page cache.
function sessions({ build }, { model, file }, pool) {
  return {
    lamina: () => startSession(`${build}/lamina`, ['bench', model, '--session', '--max-total-tokens', String(pool)]),
    peer: () => startSession(process.execPath, ['bench/peers/llama_cpp.mjs', OUT, file]),
    warm: () => execFileSync('sh', ['-c', 'cat "$@" >/dev/null', 'sh', file, ...fs.globSync(`${model}/*.safetensors`)]),
  };
}

// Load times and the memory that a prompt of 512 and a few decoded tokens take, in processes of their own.
async function measureStarts(starters, peerOptions, quick, laminaFirst) {
  const requests = [
    { what: 'prefill', tokens: quick ? 128 : 512 },
    { what: 'decode', context: 32, batch: 1, tokens: 8 },
  ];
  const out = {};
  for (const engine of laminaFirst ? ['lamina', 'peer'] : ['peer', 'lamina']) {
    starters.warm();
    const session = await starters[engine]();
    for (const request of requests) await session.ask({ ...request, ...(engine === 'peer' ? peerOptions : {}) });
    out[engine] = { ...session.ready, ...(await session.ask({ what: 'memory' })) };
    await session.end();
  }
  return out;
}

// Both engines once on a scenario, between two looks at the ceilings; a ceiling is the higher of the two.
async function alternate(live, scenario, laminaFirst) {
  const { name: _, turns: __, peer_options: options, ...request } = scenario;
  const before = await live.lamina.ask({ what: 'ceilings' });
  const turn = {};
  for (const engine of laminaFirst ? ['lamina', 'peer'] : ['peer', 'lamina']) {
    turn[engine] = await live[engine].ask({ ...request, ...(engine === 'peer' ? options : {}) });
  }
  const after = await live.lamina.ask({ what: 'ceilings' });
  turn.ceilings = Object.fromEntries(['read_gb_s', 'peak_gflops'].map((key) => [key, Math.max(before[key], after[key])]));
  return turn;
}

// The peer's best of all threads and one, flash attention on and off. One thread is not asked again of a kind of work where it lost clearly.
async function choosePeerOptions(peer, list) {
  const all = os.availableParallelism();
  const lost = new Set();
  for (const scenario of list) {
    const { name: _, ...request } = scenario;
    const tried = [];
    for (const threads of all > 1 && !lost.has(scenario.what) ? [all, 1] : [all]) {
      for (const flash of [true, false]) tried.push({ threads, flash, tok_s: (await peer.ask({ ...request, threads, flash })).tok_s });
    }
    const best = tried.reduce((a, b) => (b.tok_s > a.tok_s ? b : a));
    const alone = Math.max(0, ...tried.filter((one) => one.threads === 1).map((one) => one.tok_s));
    if (alone < 0.8 * best.tok_s) lost.add(scenario.what);
    scenario.peer_options = { threads: best.threads, flash: best.flash };
    scenario.peer_tried = tried;
    say(`  llama.cpp, ${scenario.name}: ${tried.map((one) => `${one.threads}t ${one.flash ? 'flash' : 'plain'} ${one.tok_s.toFixed(1)}`).join(', ')}`);
  }
}

async function compareFormat(options, format, files) {
  const list = scenarios(options).map((scenario) => ({ ...scenario, turns: [] }));
  const longest = Math.max(...list.map((s) => (s.context ?? 0) * (s.batch ?? 0)));
  const prompt = Math.max(...list.filter((s) => s.what === 'prefill').map((s) => s.tokens));
  // Prompts pass through what is left, again and again: the system gives a page of the pool once, and at a price (docs/BENCHMARKS.md, Load).
  const starters = sessions(options, files, longest + 2 * prompt);
  const live = { lamina: await starters.lamina(), peer: await starters.peer() };
  const run = { format, peer_format: FORMATS[format], lamina: live.lamina.ready, peer: live.peer.ready, scenarios: list, starts: [], dnnl: [dnnlPeak(options.build)] };
  run.weights = { lamina: live.lamina.ready.weight_bytes, peer: live.peer.ready.weight_bytes };
  say(`  llama.cpp: ${live.peer.ready.system}`);
  for (const scenario of list) scenario.turns = [];
  await choosePeerOptions(live.peer, list);
  for (let round = 0; round < options.rounds; ++round) {
    say(`  round ${round + 1} of ${options.rounds}`);
    for (const scenario of list) scenario.turns.push(await alternate(live, scenario, round % 2 === 0));
    run.starts.push(await measureStarts(starters, list[0].peer_options, options.quick, round % 2 === 0));
    run.dnnl.push(dnnlPeak(options.build));
  }
  await live.lamina.end();
  await live.peer.end();
  return run;
}

// What oneDNN's products reach now.
const dnnlPeak = (build) => JSON.parse(execFileSync(`${build}/dnnl_peak`, { encoding: 'utf8' }));

// A ceiling that somebody passes by more than a tenth is none: an engine in a scenario, or oneDNN the best peak of the run.
function checkCeilings(run) {
  const wrong = run.summary
    .filter((row) => Math.max(row.lamina_share ?? 0, row.peer_share ?? 0) > 1.1)
    .map((row) => `${row.name}: an engine passes ${row.bound.toFixed(1)} ${row.bound_unit}`);
  const peak = Math.max(...run.scenarios.flatMap((scenario) => scenario.turns.map((turn) => turn.ceilings.peak_gflops)));
  const dnnl = (key) => Math.max(...run.dnnl.map((rates) => rates[key]));
  if (peak < 0.9 * dnnl('bf16_gflops')) wrong.push(`oneDNN's bf16 product passes ${peak.toFixed(0)} GFLOP/s with ${dnnl('bf16_gflops')}`);
  if (2 * peak < 0.9 * dnnl('int8_gflops')) wrong.push(`oneDNN's int8 product passes ${(2 * peak).toFixed(0)} GOP/s with ${dnnl('int8_gflops')}`);
  for (const message of wrong) say(`error: ${run.format}: a ceiling is none, ${message}`);
  if (wrong.length > 0) process.exitCode = 1;
}

const options = parseOptions(process.argv.slice(2));
const narrowed = ['quick', 'short', 'serve'].filter((flag) => options[flag]).concat(options.formats.length === 1 ? options.formats : []);
fs.mkdirSync(OUT, { recursive: true });
for (const shapeName of options.shapes) {
  const folder = makeModels(options.build, shapeName);
  const shape = JSON.parse(fs.readFileSync(`${folder}/hf/config.json`, 'utf8'));
  const result = { date: new Date().toISOString().slice(0, 10), cpu: os.cpus()[0].model, cpus: os.availableParallelism(), shape: shapeName, config: shape, runs: [] };
  result.numbers = await compareNumbers(`${options.build}/lamina`, `${folder}/hf`, () => startSession(process.execPath, ['bench/peers/llama_cpp.mjs', OUT, `${folder}/bf16.gguf`]));
  say(`${shapeName}: ${JSON.stringify(result.numbers)}`);
  for (const format of options.formats) {
    say(`${shapeName}, ${format}`);
    const files = { model: checkpointIn(options.build, folder, format), file: `${folder}/${FORMATS[format]}.gguf` };
    if (options.serve) {
      result.runs.push(await compareServing(options, format, { ...files, packages: OUT }));
      continue;
    }
    const run = await compareFormat(options, format, files);
    run.summary = summarise(shape, run);
    checkCeilings(run);
    result.runs.push(run);
    console.log(`${table(shapeName, run)}\n`);
  }
  if (!options.serve) console.log(`${relations(shape, result.runs)}\n`);
  fs.writeFileSync(`${OUT}/${[shapeName, ...narrowed].join('-')}.json`, `${JSON.stringify(result, null, 1)}\n`);
}
